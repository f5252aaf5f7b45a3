# lib.sh: what test/run and the suites that are scripts share: packages, the server, the copy of the tree. Sourced by
# bash scripts; sets no shell option and starts nothing by itself.
# shellcheck shell=bash

export LC_ALL=C.UTF-8 # what tools say is read by scripts
umask 022             # the unprivileged user reads what root has made

say() {
	printf '%s\n' "$*"
}

die() {
	printf '%s: %s\n' "${0##*/}" "$*" >&2
	exit 2
}

# as_root SCRIPT ARGUMENT...: start the calling script again through sudo, unless this is root already.
# sudo drops the environment, so the variables that mean something are handed over by name.
as_root() {
	[ "$(id -u)" != 0 ] || return 0
	command -v sudo >/dev/null || die "needs root, or sudo"
	local name settings=()
	for name in CI PG_CONFIG TEST_JOBS TEST_LOGS TEST_SEED TEST_FAILOVERS MATRIX_ROOT MATRIX_FRESH TEST_CCACHE \
		SQLSMITH_SECONDS SQLSMITH_SEED NEIGHBOURS; do
		[ -z "${!name+set}" ] || settings+=("$name=${!name}")
	done
	exec sudo env "${settings[@]}" bash "$@"
}

# need PROBE PACKAGE [PROBE PACKAGE]...: note the packages whose probe (a command, or a file when it
# starts with a slash) is not there. Probes and not package names: what was installed in another way serves,
# but for what is root's alone, in a folder that only root's PATH has.
missing_packages=()
need() {
	local PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
	while [ $# -gt 0 ]; do
		case $1 in
			/*) [ -e "$1" ] || missing_packages+=("$2") ;;
			*) command -v "$1" >/dev/null || missing_packages+=("$2") ;;
		esac
		shift 2
	done
}

# need_of SCRIPT [ARGUMENT...]: note what that suite would install. Two suites must not install at the same time: who runs
# several at once asks them first.
need_of() {
	local list
	list=$(TEST_MISSING=1 FENCING_CONF="" "$@" </dev/null) || die "$1 does not say what it needs: $list"
	[ -z "$list" ] || mapfile -t -O ${#missing_packages[@]} missing_packages <<<"$list"
}

# Of two that install at a time one would fail: whoever begins here keeps the lock until its packages are there.
update_package_lists() {
	mkdir -p /run/lock && exec 8>/run/lock/fencing-packages && flock 8 || die "no lock for the packages"
	[ -z "${lists_updated:-}" ] || return 0
	command -v apt-get >/dev/null || die "missing: ${missing_packages[*]}, and there is no apt-get here"
	apt-get update -qq </dev/null >&2 || die "apt-get update failed"
	lists_updated=1
}

# Install what need() noted. The server's package would create and start a cluster of its own, others would
# start their service, so for as long as the installation runs both are told not to; afterwards their settings
# are as they were. With TEST_MISSING=1 only say what is missing, a line each, and end the script.
install_missing() {
	if [ -n "${TEST_MISSING:-}" ]; then
		[ ${#missing_packages[@]} = 0 ] || printf '%s\n' "${missing_packages[@]}"
		exit 0
	fi
	[ ${#missing_packages[@]} -gt 0 ] || return 0
	local setting=/etc/postgresql-common/createcluster.conf policy=/usr/sbin/policy-rc.d kept log status=0
	say "installing ${missing_packages[*]}"
	update_package_lists
	kept=$(mktemp) log=$(mktemp)
	if [ -e "$setting" ]; then
		cp -p "$setting" "$kept"
	else
		rm "$kept"
		mkdir -p "${setting%/*}"
	fi
	echo "create_main_cluster = false" >"$setting"
	if [ -e "$policy" ]; then policy=""; else printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod 755 "$policy"; fi
	DEBIAN_FRONTEND=noninteractive UCF_FORCE_CONFFOLD=1 \
		apt-get install -y -qq --no-install-recommends "${missing_packages[@]}" </dev/null >"$log" 2>&1 || status=$?
	[ -z "$policy" ] || rm -f "$policy"
	if [ -e "$kept" ]; then
		mv "$kept" "$setting"
	elif [ -e "/usr/share/postgresql-common/${setting##*/}" ]; then
		cp "/usr/share/postgresql-common/${setting##*/}" "$setting"
	else
		rm "$setting"
		rmdir --ignore-fail-on-non-empty "${setting%/*}"
	fi
	[ "$status" = 0 ] || cat "$log" >&2
	rm -f "$log"
	exec 8>&-
	[ "$status" = 0 ] || die "could not install ${missing_packages[*]}"
	missing_packages=()
}

# Set PG_CONFIG: the given one, else that of the newest server installed, else that of the suite's server;
# note the packages that it lacks. Always the program in the server's own folder, since /usr/bin/pg_config
# is a wrapper that takes whichever version is the highest.
find_server() {
	local directory
	if [ -z "${PG_CONFIG:-}" ]; then
		directory=$(printf '%s\n' /usr/lib/postgresql/*/bin/postgres | sort -V | tail -n 1)
		if [ ! -e "$directory" ]; then
			update_package_lists
			directory=$(apt-cache depends postgresql | sed -n 's|.*Depends: postgresql-\([0-9]*\)$|/usr/lib/postgresql/\1/bin/postgres|p')
			[ -n "$directory" ] || die "no PostgreSQL server is installed, and no package offers one"
		fi
		PG_CONFIG=${directory%/*}/pg_config
	fi
	if [[ $PG_CONFIG =~ ^/usr/lib/postgresql/([0-9]+)/bin/pg_config$ ]]; then
		local major=${BASH_REMATCH[1]}
		need "${PG_CONFIG%/*}/postgres" "postgresql-$major" \
			"/usr/include/postgresql/$major/server/postgres.h" "postgresql-server-dev-$major"
	else
		command -v "$PG_CONFIG" >/dev/null || die "PG_CONFIG: there is no $PG_CONFIG"
		PG_CONFIG=$("$PG_CONFIG" --bindir)/pg_config
	fi
	export PG_CONFIG
}

# node_packages PROGRAM TO: TO/node_modules, as the lock file in the folder of the program says. By root, whose npm knows the
# way to the registry; where there is no network, from what FENCING_NPM holds of that name.
node_packages() {
	mkdir -p "$2" || return
	if [ -n "${FENCING_NPM:-}" ]; then
		cp -r "$FENCING_NPM/${1##*/}/node_modules" "$2"
		return
	fi
	cp "$1"/package*.json "$2" &&
		timeout 300 npm ci --prefix "$2" --ignore-scripts --no-audit --no-fund >"$2/npm.log" 2>&1 && return
	cat "$2/npm.log"
	say "no packages for ${1##*/} from the npm registry"
	return 1
}

# copy_tree FROM TO: the files that belong to the tree, changed and new ones included. Nothing that was
# built: objects of another major look up to date to make, and a server refuses such a library.
copy_tree() {
	local file git=(git -C "$1" -c safe.directory='*') # root may look into a user's checkout
	mkdir -p "$2"
	if [ "$("${git[@]}" rev-parse --show-toplevel 2>/dev/null)" = "$(readlink -f "$1")" ]; then
		"${git[@]}" ls-files -z --cached --others --exclude-standard |
			while IFS= read -r -d '' file; do # a deleted file is still listed
				if [ -e "$1/$file" ] || [ -L "$1/$file" ]; then printf '%s\0' "$file"; fi
			done | tar -C "$1" --null -T - -cf -
	else
		tar -C "$1" --exclude-vcs --exclude='*.o' --exclude='*.d' --exclude='*.bc' --exclude='*.so' \
			--exclude='./fencing--*.sql' --exclude=./tmp_check --exclude=./results --exclude='./regression.*' \
			--exclude=./test/output --exclude=./output_iso --exclude=./log -cf - .
	fi | tar -C "$2" -xf - --no-same-owner
}

# ---- an unprivileged user and a server of one's own

# become_tester FOLDER: what the functions below need to work in that folder: log/, tmp/, clusters and sockets.
become_tester() {
	work=$1 seconds=1800
	user=postgres
	id "$user" >/dev/null 2>&1 || user=nobody
	bindir=$("$PG_CONFIG" --bindir)
	# A few settings and nothing else of the caller's environment: no PGHOST, no MAKEFLAGS, no locale.
	settings=(HOME="$work" TMPDIR="$work/tmp" LANG=C.UTF-8 LC_ALL=C.UTF-8 PG_CONFIG="$PG_CONFIG"
		PATH="$bindir:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	mkdir -p "$work/log" "$work/tmp"
	chown "$user" "$work" "$work/log" "$work/tmp"
}

# Run a command as the unprivileged user, for so many $seconds at most.
as_user() {
	timeout -k 10 "$seconds" \
		setpriv --reuid="$user" --regid="$(id -g "$user")" --init-groups env -i "${settings[@]}" "$@"
}

# with_server NAME COMMAND...: run it as the user against a cluster made for that, which finds the build under test.
# $server_conf: more lines of configuration. $SERVER_ENV: words NAME=VALUE for the server's environment.
with_server() {
	local name=$1 data=$work/$1 status environment
	shift
	read -ra environment <<<"${SERVER_ENV:-}"
	mkdir "$work/socket-$name" && chown "$user" "$work/socket-$name" || return
	as_user initdb -D "$data" -A trust -N -U postgres --locale=C.UTF-8 -E UTF8 >"$work/log/initdb" 2>&1 ||
		{ cat "$work/log/initdb" && return 1; }
	cat >>"$data/postgresql.conf" - ${FENCING_CONF:+"$FENCING_CONF"} <<-CONF
		listen_addresses = ''
		unix_socket_directories = '$work/socket-$name'
		fsync = off
		max_prepared_transactions = 2
		log_line_prefix = '%m [%p] %q%a '
		${server_conf:-}
	CONF
	as_user "${environment[@]}" pg_ctl -D "$data" -w -l "$work/log/server-$name" start >/dev/null || return
	as_user PGHOST="$work/socket-$name" PGUSER=postgres "$@"
	status=$?
	as_user pg_ctl -D "$data" -m fast stop >/dev/null || as_user pg_ctl -D "$data" -m immediate stop >/dev/null
	return "$status"
}

# preload_conf: the line that preloads the library. Debian's extension_destdir does not count for a bare name.
preload_conf() {
	local library=fencing
	[ -z "${FENCING_CONF:-}" ] || library=$(sed -n "s|^extension_destdir = '\(.*\)'|\1$("$PG_CONFIG" --pkglibdir)/fencing|p" "$FENCING_CONF")
	printf "shared_preload_libraries = '%s'\n" "${library:-fencing}"
}

# stop_servers: what with_server has started and could not stop, because a signal came. For the trap of who calls it.
stop_servers() {
	local file
	for file in "$work"/*/postmaster.pid; do
		[ ! -e "$file" ] || as_user pg_ctl -D "${file%/*}" -m immediate stop >/dev/null 2>&1
	done
}
