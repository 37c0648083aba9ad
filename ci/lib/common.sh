# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# For the scripts of ci/ to source: where things are, and how they are built.

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$top" || exit 1
# Somebody's LD_PRELOAD or urxe configuration is not what is under test.
unset LD_PRELOAD LD_LIBRARY_PATH URXE_PROVIDER
for name in ${!URXE_@}; do
	case $name in
	URXE_BUILD | URXE_SHARED | URXE_FUZZ_SECONDS | URXE_VM_DIR | URXE_DEBIAN_DIR) ;;
	*) unset "$name" ;;
	esac
done
unset name

die() {
	echo "$(basename "$0"): $*" >&2
	exit 1
}

# build_dir KIND: plain, release, asan, tsan, fuzz, coverage or fuzz-coverage; $URXE_BUILD moves them all
build_dir() {
	local base=${URXE_BUILD:-$top/build}

	if [ "$1" = plain ]; then
		echo "$base"
	else
		echo "$base-$1"
	fi
}

# build KIND: sets up the folder unless it is, and builds all (fuzz: the fuzzers). $werror: true where a
# warning is an error, which is so for ci/test, and not for those who only want it to work
werror=false
build() {
	local kind=$1 dir args cc=${CC:-} what=all

	dir=$(build_dir "$kind")
	case $kind in
	plain) args=() ;;
	release) args=(-Dbuildtype=release -Ddebug=true) ;;
	# -g1: lines, a quarter less to compile and link. TSan is told of functions that are inlined.
	asan) args=(-Db_sanitize=address,undefined -Dbuildtype=debug -Doptimization=1 -Dc_args=-g1) ;;
	tsan) args=(-Db_sanitize=thread -Dbuildtype=debug -Doptimization=1) ;;
	fuzz)
		args=(-Dfuzz=true -Db_sanitize=address,undefined -Dbuildtype=debug -Doptimization=1 -Dc_args=-g1)
		# Debian 12's, 13's
		cc=clang-14 what=fuzzers
		command -v $cc >/dev/null || cc=clang-19
		;;
	coverage)
		# atomic: threads count the same lines
		args=(-Db_coverage=true -Dc_args=-fprofile-update=atomic -Dbuildtype=debug -Doptimization=1)
		;;
	fuzz-coverage)
		# Without libFuzzer: each input once.
		args=("-Dc_args=-fprofile-instr-generate -fcoverage-mapping"
			-Dc_link_args=-fprofile-instr-generate -Dbuildtype=debug -Doptimization=1)
		cc=clang-14 what=replayers
		command -v $cc >/dev/null || cc=clang-19
		;;
	*) die "no build is called '$kind' (plain, release, asan, tsan, fuzz, coverage, fuzz-coverage are)" ;;
	esac
	if [ ! -f "$dir/build.ninja" ]; then
		quietly env ${cc:+CC="$cc"} meson setup -Dwerror=$werror "${args[@]}" "$dir" "$top" || return
	fi
	quietly ninja -C "$dir" "$what"
}

# quietly CMD...: shows the output when it fails
quietly() {
	local log status

	log=$(mktemp)
	"$@" >"$log" 2>&1 </dev/null
	status=$?
	[ $status = 0 ] || cat "$log" >&2
	rm -f "$log"
	return $status
}
