/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * INI documents; behind a NUL, flags and their values, NUL between all of them. They are refused
 * with one line that says why, or give a configuration that is printed and read again as the
 * very same, for that is how `urxe run` hands it on.
 */
#include <errno.h>

#include "fuzz.h"
#include "netio/config.h"
#include "netio/devargs.h"
#include "netio/link.h"
#include "netio/port.h"

static char err[512];

/* The string behind @s, which ends before @end; NULL: there is none. */
static const char *next(const char *s, const char *end)
{
	s += strlen(s) + 1;
	return s < end ? s : NULL;
}

static int from_text(const char *text, const char *end, struct urxe_config *cfg)
{
	struct urxe_config_settings s = {0};
	const char *key = next(text, end), *value;
	int ret;

	err[0] = '\0';
	ret = urxe_config_add_text(&s, text, "fuzz.ini", err, sizeof(err));
	while (!ret && key && (value = next(key, end))) {
		ret = urxe_config_add(&s, URXE_CONFIG_FLAG, "", key, value, "a flag", err,
				      sizeof(err));
		key = next(value, end);
	}
	if (!ret)
		ret = urxe_config_resolve(&s, cfg, err, sizeof(err));
	urxe_config_settings_free(&s);
	if (ret) {
		FUZZ_CHECK(ret == EINVAL);
		FUZZ_CHECK(err[0] && strlen(err) < sizeof(err) && !strchr(err, '\n'));
	}
	return ret;
}

static void use(const struct urxe_port_config *d)
{
	uint32_t l3 = urxe_config_l3_mtu(d), path = urxe_config_path_mtu(l3);
	struct urxe_port *port;
	char out[1024], val[64];

	FUZZ_CHECK(l3 >= 576 && l3 <= 9600 && path >= 256 && path <= 4096);
	FUZZ_CHECK(d->num_ips <= URXE_CONFIG_MAX_IPS);
	urxe_devargs_name(d->port, val, sizeof(val));
	urxe_devargs_get(d->port, "iface", val, sizeof(val));
	urxe_devargs_pci(d->port, val, sizeof(val));
	urxe_devargs_complete(d, l3, out, sizeof(out), err, sizeof(err));
	urxe_devargs_data_room(out, l3);
	/* What is accepted can be made a port of. */
	FUZZ_CHECK(!urxe_port_create(&port, d, &urxe_link_loop_ops, NULL));
	urxe_port_destroy(port);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct urxe_config first, second;
	const void *a = &first, *b = &second; /* padding is zero in both */
	char *text = malloc(size + 1), *printed;

	FUZZ_CHECK(text);
	memcpy(text, data, size);
	text[size] = '\0';
	if (!from_text(text, text + size, &first)) {
		for (unsigned i = 0; i < first.num_devices; i++)
			use(&first.devices[i]);
		printed = urxe_config_print(&first);
		FUZZ_CHECK(printed);
		FUZZ_CHECK(!from_text(printed, printed, &second));
		FUZZ_CHECK(!memcmp(a, b, sizeof(first)));
		free(printed);
	}
	free(text);
	return 0;
}
