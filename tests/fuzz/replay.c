/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A fuzzer without libFuzzer: runs the files named, and those in the folders named, once each.
 * A file that breaks something ends the program; its name stands before.
 */
#include <dirent.h>
#include <sys/stat.h>

#include "fuzz.h"

static unsigned ran;

static int run_file(const char *path)
{
	static uint8_t all[1 << 20];
	FILE *f = fopen(path, "rb");
	uint8_t *data;
	size_t len;

	if (!f) {
		perror(path);
		return 1;
	}
	len = fread(all, 1, sizeof(all), f);
	fclose(f);
	/* Of its very length: what is read behind its end is found by sanitizers. */
	data = malloc(len ? len : 1);
	if (!data)
		return 1;
	memcpy(data, all, len);
	fprintf(stderr, "%s\n", path);
	LLVMFuzzerTestOneInput(data, len);
	free(data);
	ran++;
	return 0;
}

static int run_dir(const char *path)
{
	struct dirent **names;
	int n = scandir(path, &names, NULL, alphasort), bad = 0;
	char file[4096];

	if (n < 0) {
		perror(path);
		return 1;
	}
	for (int i = 0; i < n; i++) {
		snprintf(file, sizeof(file), "%s/%s", path, names[i]->d_name);
		if (names[i]->d_name[0] != '.')
			bad |= run_file(file);
		free(names[i]);
	}
	free(names);
	return bad;
}

int main(int argc, char **argv)
{
	int bad = 0;

	for (int i = 1; i < argc; i++) {
		struct stat st;

		if (stat(argv[i], &st)) {
			perror(argv[i]);
			bad = 1;
		} else {
			bad |= S_ISDIR(st.st_mode) ? run_dir(argv[i]) : run_file(argv[i]);
		}
	}
	if (!ran)
		bad = 1;
	printf("%s %u inputs\n", bad ? "FAIL" : "ok", ran);
	return bad;
}
