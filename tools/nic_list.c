/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * urxe bind --list: the network cards, as a table or as JSON.
 */
#include <stdio.h>

#include "json.h"
#include "nic.h"
#include "tool.h"

struct list {
	const struct nic_host *h;
	struct json_object *cards; /* NULL: a table is wanted */
	unsigned shown;
};

static const char *or_none(const char *s)
{
	return s[0] ? s : "-";
}

static void print_table(const struct nic *n)
{
	const struct urxe_pci *p = &n->pci;

	printf("%s  %s\n", p->addr, n->name);
	printf("  id         %04x:%04x\n", p->vendor, p->device);
	printf("  driver     %s\n", or_none(p->driver));
	printf("  pmd        %s\n", n->pmds_known ? or_none(n->pmd) : "unknown");
	for (unsigned i = 0; i < p->num_nets; i++)
		printf("  interface  %s, %s, link %s\n", p->nets[i].name,
		       p->nets[i].up ? "up" : "down", p->nets[i].carrier ? "up" : "down");
	if (p->group[0])
		printf("  iommu      group %s%s\n", p->group, p->noiommu ? " (none)" : "");
	printf("  use        %s%s%s\n", nic_use_names[n->use], n->remark[0] ? ": " : "", n->remark);
}

static void add_or_null(struct json_object *o, const char *key, const char *value)
{
	json_object_object_add(o, key, value[0] ? tool_json_string(value) : NULL);
}

static struct json_object *json_interfaces(const struct urxe_pci *p)
{
	struct json_object *all = json_object_new_array(), *o;

	for (unsigned i = 0; i < p->num_nets; i++) {
		o = json_object_new_object();
		tool_json_add(o, "name", p->nets[i].name);
		json_object_object_add(o, "up", json_object_new_boolean(p->nets[i].up));
		json_object_object_add(o, "link", json_object_new_boolean(p->nets[i].carrier));
		json_object_array_add(all, o);
	}
	return all;
}

static struct json_object *json_card(const struct nic *n)
{
	struct json_object *o = json_object_new_object();
	const struct urxe_pci *p = &n->pci;
	char id[8];

	add_or_null(o, "address", p->addr);
	add_or_null(o, "name", n->name);
	snprintf(id, sizeof(id), "%04x", p->vendor);
	tool_json_add(o, "vendor", id);
	snprintf(id, sizeof(id), "%04x", p->device);
	tool_json_add(o, "device", id);
	add_or_null(o, "driver", p->driver);
	add_or_null(o, "pmd", n->pmd);
	add_or_null(o, "iommu_group", p->group);
	json_object_object_add(o, "interfaces", json_interfaces(p));
	json_object_object_add(o, "default_route", json_object_new_boolean(n->route));
	json_object_object_add(o, "holder",
			       n->holder ? json_object_new_int((int32_t)n->holder) : NULL);
	tool_json_add(o, "use", nic_use_names[n->use]);
	tool_json_add(o, "remark", n->remark);
	return o;
}

static int show(const char *addr, void *arg)
{
	struct list *l = arg;
	struct urxe_pci p;
	struct nic n;

	if (urxe_pci_inspect(l->h->roots, addr, &p) || !urxe_pci_is_nic(&p) ||
	    nic_look(l->h, addr, &n))
		return 0;
	if (l->cards)
		json_object_array_add(l->cards, json_card(&n));
	else
		print_table(&n);
	l->shown++;
	return 0;
}

int nic_list(const struct nic_host *h, bool json)
{
	struct list l = {.h = h, .cards = json ? json_object_new_array() : NULL};
	struct json_object *top = NULL;

	urxe_pci_each(h->roots, show, &l); /* a machine without PCI has none either */
	if (json) {
		top = json_object_new_object();
		json_object_object_add(top, "cards", l.cards);
		return tool_json_print(top);
	}
	if (!l.shown)
		printf("no network cards on PCI\n");
	return 0;
}
