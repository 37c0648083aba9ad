/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * urxe doctor PROGRAM: whether the dynamic linker of a program will look where LD_LIBRARY_PATH says
 * for libibverbs, as its file says.
 */
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "doctor.h"

#define MAX_HEADERS 64
#define MAX_DYNAMIC 256

/* What is in a file that wants to be an ELF program. */
struct image {
	FILE *file;
	ElfW(Ehdr) head;
	ElfW(Phdr) parts[MAX_HEADERS];
	unsigned num_parts;
};

static bool read_at(FILE *file, uint64_t where, void *to, size_t len)
{
	return where <= LONG_MAX && !fseek(file, (long)where, SEEK_SET) &&
	       fread(to, 1, len, file) == len;
}

/* A string that ends within @len; "" when it does not. */
static void read_text(FILE *file, uint64_t where, char *to, size_t len)
{
	size_t n = 0;

	if (where <= LONG_MAX && !fseek(file, (long)where, SEEK_SET))
		n = fread(to, 1, len, file);
	if (!memchr(to, '\0', n))
		to[0] = '\0';
}

static bool read_head(FILE *file, ElfW(Ehdr) * h)
{
	return read_at(file, 0, h, sizeof(*h)) && !memcmp(h->e_ident, ELFMAG, SELFMAG);
}

static bool read_parts(struct image *i)
{
	struct stat st;

	i->num_parts = i->head.e_phnum;
	if (i->head.e_phentsize != sizeof(i->parts[0]) || i->num_parts > MAX_HEADERS ||
	    !read_at(i->file, i->head.e_phoff, i->parts, i->num_parts * sizeof(i->parts[0])) ||
	    fstat(fileno(i->file), &st))
		return false;
	for (unsigned n = 0; n < i->num_parts; n++) {
		if (i->parts[n].p_type == PT_LOAD &&
		    (uint64_t)st.st_size < i->parts[n].p_offset + i->parts[n].p_filesz)
			return false;
	}
	return true;
}

static const ElfW(Phdr) * part(const struct image *i, uint32_t type)
{
	for (unsigned n = 0; n < i->num_parts; n++) {
		if (i->parts[n].p_type == type)
			return &i->parts[n];
	}
	return NULL;
}

/* Where in the file an address is; UINT64_MAX: nowhere. */
static uint64_t offset(const struct image *i, uint64_t addr)
{
	for (unsigned n = 0; n < i->num_parts; n++) {
		const ElfW(Phdr) *p = &i->parts[n];

		if (p->p_type == PT_LOAD && addr >= p->p_vaddr && addr - p->p_vaddr < p->p_filesz)
			return p->p_offset + (addr - p->p_vaddr);
	}
	return UINT64_MAX;
}

/* The DT_RPATH, or "". The linker does not look at it where there is a DT_RUNPATH. */
static void read_rpath(const struct image *i, char *rpath, size_t len)
{
	const ElfW(Phdr) *p = part(i, PT_DYNAMIC);
	uint64_t strings = UINT64_MAX, at = UINT64_MAX;
	ElfW(Dyn) all[MAX_DYNAMIC];
	size_t n = p ? p->p_filesz / sizeof(all[0]) : 0;

	rpath[0] = '\0';
	if (n > MAX_DYNAMIC)
		n = MAX_DYNAMIC;
	if (!n || !read_at(i->file, p->p_offset, all, n * sizeof(all[0])))
		return;
	for (size_t k = 0; k < n && all[k].d_tag != DT_NULL; k++) {
		if (all[k].d_tag == DT_RUNPATH)
			return;
		if (all[k].d_tag == DT_STRTAB)
			strings = offset(i, all[k].d_un.d_ptr);
		if (all[k].d_tag == DT_RPATH)
			at = all[k].d_un.d_val;
	}
	if (strings != UINT64_MAX && at < UINT32_MAX)
		read_text(i->file, strings + at, rpath, len);
}

/* A folder of a DT_RPATH, with $ORIGIN as the linker takes it. */
static void resolve_origin(const char *dir, const char *program, char *to, size_t len)
{
	static const char *const words[] = {"$ORIGIN", "${ORIGIN}"};
	const char *slash;
	char real[PATH_MAX];

	snprintf(to, len, "%s", dir);
	for (unsigned i = 0; i < 2; i++) {
		size_t n = strlen(words[i]);

		if (strncmp(dir, words[i], n) != 0 || !realpath(program, real))
			continue;
		slash = strrchr(real, '/');
		snprintf(to, len, "%.*s%s", (int)(slash - real), real, dir + n);
	}
}

static void look_at_rpath(struct finding *f, const struct image *i, const char *path)
{
	static const char mend[] = "chrpath -c PROGRAM, which makes it DT_RUNPATH";
	char rpath[PATH_MAX], dir[PATH_MAX], name[PATH_MAX], *rest, *word;

	read_rpath(i, rpath, sizeof(rpath));
	if (!rpath[0])
		return;
	doctor_find(f, NOTE, mend, "looks in DT_RPATH before LD_LIBRARY_PATH: %s", rpath);
	for (rest = rpath; (word = strsep(&rest, ":"));) {
		resolve_origin(word, path, dir, sizeof(dir));
		if (!doctor_has_rdma(dir, name, sizeof(name)))
			continue;
		doctor_find(f, MISSING, mend, "its DT_RPATH, before LD_LIBRARY_PATH, has %s", name);
		return;
	}
}

/* The linker's path. That of another C library has another name. */
static void read_linker(const struct image *i, char *to, size_t len)
{
	const ElfW(Phdr) *p = part(i, PT_INTERP);

	to[0] = '\0';
	if (p)
		read_text(i->file, p->p_offset, to, len);
}

static const char *base(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* By its name, or as a link to ours. */
static bool same_linker(const char *its, const char *ours)
{
	struct stat a, b;

	return !strcmp(base(its), base(ours)) ||
	       (!stat(its, &a) && !stat(ours, &b) && a.st_ino == b.st_ino && a.st_dev == b.st_dev);
}

/* urxe's libraries are of the machine and the C library that this command is of. */
static void compare(struct finding *f, struct image *i, const struct image *us, const char *path)
{
	char its[PATH_MAX], ours[PATH_MAX];

	if (memcmp(i->head.e_ident, us->head.e_ident, EI_VERSION) != 0 ||
	    i->head.e_machine != us->head.e_machine) {
		doctor_find(f, MISSING, NULL, "%s: %s-bit, of machine %u: urxe's libraries are not",
			    path, i->head.e_ident[EI_CLASS] == ELFCLASS32 ? "32" : "64",
			    (unsigned)i->head.e_machine);
		return;
	}
	if ((i->head.e_type != ET_EXEC && i->head.e_type != ET_DYN) || !read_parts(i)) {
		doctor_find(f, MISSING, NULL, "%s: no program, or a part of one", path);
		return;
	}
	read_linker(i, its, sizeof(its));
	read_linker(us, ours, sizeof(ours));
	if (!its[0])
		doctor_find(f, MISSING, "link it with -libverbs, not statically",
			    "linked statically: it loads no library");
	else if (access(its, F_OK))
		doctor_find(f, MISSING, NULL, "its linker %s: %s", its, strerror(errno));
	else if (!same_linker(its, ours))
		doctor_find(f, MISSING, "build it with glibc",
			    "its linker %s is not glibc's, which urxe's libraries need", its);
	else
		look_at_rpath(f, i, path);
}

static void look_inside(struct finding *f, FILE *file, const char *path)
{
	struct image program = {.file = file}, us = {.file = fopen("/proc/self/exe", "re")};
	char start[2] = "";

	read_at(file, 0, start, sizeof(start));
	if (!us.file || !read_head(us.file, &us.head) || !read_parts(&us))
		doctor_find(f, NOTE, NULL, "%s: cannot be compared: no /proc/self/exe", path);
	else if (!memcmp(start, "#!", 2))
		doctor_find(f, OK, NULL, "%s: a script; ask for the program that it runs", path);
	else if (!read_head(file, &program.head))
		doctor_find(f, MISSING, NULL, "%s: no ELF program", path);
	else
		compare(f, &program, &us, path);
	if (us.file)
		fclose(us.file);
}

/* What execvp() would take for @name; false: nothing. */
static bool in_path(const char *name, char *to, size_t len)
{
	const char *path = getenv("PATH");
	char *all = strdup(path ? path : "/bin:/usr/bin"), *rest = all, *dir;
	bool found = false;
	struct stat st;

	while (!found && rest && (dir = strsep(&rest, ":")))
		found = snprintf(to, len, "%s/%s", *dir ? dir : ".", name) < (int)len &&
			!stat(to, &st) && S_ISREG(st.st_mode) && !access(to, X_OK);
	free(all);
	return found;
}

/* The linker takes no advice in a program that gets rights by its file. */
static bool gives_rights(const char *path)
{
	return getuid() && getxattr(path, "security.capability", NULL, 0) > 0;
}

static void look_at(struct finding *f, const char *path)
{
	FILE *file = NULL;
	struct stat st;

	/* Not opened before it is known to be a file: a FIFO would wait. */
	if (stat(path, &st))
		doctor_find(f, MISSING, NULL, "%s: %s", path, strerror(errno));
	else if (!S_ISREG(st.st_mode))
		doctor_find(f, MISSING, NULL, "%s: no regular file", path);
	else if (access(path, X_OK) || !(file = fopen(path, "re")))
		doctor_find(f, MISSING, NULL, "%s: %s", path, strerror(errno));
	else if (st.st_mode & (S_ISUID | S_ISGID))
		doctor_find(f, MISSING, "run a copy of it",
			    "set-user-ID: it ignores LD_LIBRARY_PATH");
	else if (gives_rights(path))
		doctor_find(f, MISSING, "run a copy of it, or as root",
			    "file capabilities: it ignores LD_LIBRARY_PATH");
	else
		look_inside(f, file, path);
	if (file)
		fclose(file);
}

void doctor_program(struct finding *f, const char *name)
{
	char path[PATH_MAX];

	doctor_find(f, OK, NULL, "%s", name);
	if (strchr(name, '/')) {
		look_at(f, name);
	} else if (in_path(name, path, sizeof(path))) {
		doctor_find(f, OK, NULL, "%s", path);
		look_at(f, path);
	} else {
		doctor_find(f, MISSING, NULL, "%s: not in PATH", name);
	}
}
