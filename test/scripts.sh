# scripts.sh: what the suites share whose tests are Perl scripts on PostgreSQL::Test::Cluster beside their run. Sourced
# after lib.sh, by bash scripts; the caller's `here` is its folder.
# shellcheck shell=bash

passed=0 failed=0 child=""

# begin_scripts SUITE: a folder to work in, $work, that only the tester writes to; it goes when the caller ends. Each script
# ends what it has started.
begin_scripts() {
	user=postgres
	work=$(mktemp -d "/var/tmp/fencing-$1.XXXXXX") || exit # a short path: sockets are in it
	trap end_of_scripts EXIT
	trap 'exit 143' INT TERM HUP
	chmod 755 "$work" && mkdir "$work/tmp" && chown "$user" "$work" "$work/tmp" || exit
	cd "$work" || exit
	# Nothing else of the caller's environment. A suite adds to it.
	local source_of_server
	source_of_server=$(dirname "$("$PG_CONFIG" --pgxs)")/../../src
	settings=(HOME="$work" TMPDIR="$work/tmp" LANG=C.UTF-8 LC_ALL=C.UTF-8 PG_CONFIG="$PG_CONFIG" FENCING_CONF="$FENCING_CONF"
		PATH="$("$PG_CONFIG" --bindir):/usr/sbin:/usr/bin:/sbin:/bin" PERL5LIB="$source_of_server/test/perl:$here/../perl"
		PG_REGRESS="$source_of_server/test/regress/pg_regress")
}

end_of_scripts() {
	trap '' INT TERM HUP
	[ -z "$child" ] || kill "$child" 2>/dev/null
	wait
	rm -rf --one-file-system "$work"
}

# script NAME ARGUMENT...: run NAME.pl as the tester, print what it says, and count.
script() {
	local name=$1 status good bad log
	shift
	setpriv --reuid="$user" --regid="$(id -g "$user")" --init-groups env -i "${settings[@]}" \
		perl "$here/$name.pl" "$@" >"$work/$name.log" 2>&1 &
	child=$!
	wait "$child"
	status=$?
	child=""
	cat "$work/$name.log"
	good=$(grep -c '^ok ' "$work/$name.log") bad=$(grep -c '^not ok ' "$work/$name.log")
	if [ "$status" != 0 ]; then
		[ "$bad" != 0 ] || bad=1
		# What went to standard error is there: the folder's name depends on the server's version.
		for log in "$work"/log/* "$work"/tmp_check/log/*; do
			[ -e "$log" ] || continue
			say "==> $log"
			tail -n 30 "$log"
		done
	fi
	passed=$((passed + good)) failed=$((failed + bad))
}

# finish_scripts: the closing line, and its status.
finish_scripts() {
	say "$passed passed, $failed failed"
	[ "$failed" = 0 ]
}
