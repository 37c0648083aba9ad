# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# For the scripts of ci/ that run virtual machines to source before they read their arguments.

# regex TEXT: that it is one, before anything is built
regex() {
	python3 -c 'import re, sys; re.compile(sys.argv[1])' "$1" 2>/dev/null && return
	echo "$0: --only: found '$1', accepted: a regular expression" >&2
	exit 2
}
