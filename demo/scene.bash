# shellcheck shell=bash
# demo/scene.bash: the plot. Sourced by demo/run, which has the server running and the worker built
# ($as_user, $bindir, $tree and $work are its variables) and ends what is left when the scene fails.
#
# Two payments for wallet 42 arrive at about the same time, one worker takes each. The scene is
# directed by events, never by sleeping: a worker says where it is, and waits for the fraud check,
# whose verdict the director hands over. The one wait, for the lease to run out, is worker 2's own.

readonly wallet=42 ttl='2 seconds'
# The wallet holds 412.50; each worker's payment, and the balance that it computes from that
readonly amount_1=-120.00 after_1=292.50
readonly amount_2=-300.00 after_2=112.50
readonly after_both=-7.50

declare -a pid_of events_of verdict_of # by worker number

# ---- the time line

# say WHO TEXT [COLOUR]: one event, with the seconds since the act began. Without WHO: more about
# the one before.
say() {
	local who=$1 text=$2 colour=${3-} name_colour=$dim time='' since line
	[[ $who == 'worker 1' ]] && name_colour=$yellow
	[[ $who == 'worker 2' ]] && name_colour=$cyan
	if [[ -n $who ]]; then
		since=$(((${EPOCHREALTIME/./} - act_began) / 10000))
		printf -v time '%d.%02d' $((since / 100)) $((since % 100))
	fi
	fold -s -w 80 <<<"$text" | while IFS= read -r line; do
		printf '%6s  %s%-8s%s  %s%s%s\n' \
			"$time" "$name_colour" "$who" "$plain" "$colour" "${line% }" "${colour:+$plain}"
		time='' who=''
	done
}

# ---- the workers

# start_worker NUMBER KIND AMOUNT MEMO
start_worker() {
	local number=$1 pipe=$work/$PGDATABASE.worker-$1 to from
	mkfifo "$pipe.in" "$pipe.out"
	"${as_user[@]}" "$tree/demo/wallet_worker" "worker $number" "$wallet" "$ttl" "${@:2}" \
		<"$pipe.in" >"$pipe.out" &
	workers[$!]=$number
	pid_of[$number]=$!
	exec {to}>"$pipe.in" {from}<"$pipe.out"
	verdict_of[$number]=$to
	events_of[$number]=$from
}

# follow NUMBER EVENT: puts on the time line what a worker tells, up to that event ("end": all of it).
follow() {
	local worker="worker $1" awaited=$2 event text status
	while :; do
		status=0
		IFS=$'\t' read -r -t 30 -u "${events_of[$1]}" event text || status=$?
		((status <= 128)) || fail "$worker has been silent for 30 seconds"
		((status == 0)) || break
		case $event in
			error) say "$worker" "$text" "$red" ;;
			detail | hint) say '' "$text" ;;
			*) say "$worker" "$text" ;;
		esac
		[[ $event != "$awaited" ]] || return 0
	done
	[[ $awaited == end ]] || fail "$worker did not get as far as \"$awaited\""
}

# finish NUMBER: follows a worker to its end and leaves its exit status in $status.
finish() {
	follow "$1" end
	status=0
	wait "${pid_of[$1]}" || status=$?
	unset "workers[${pid_of[$1]}]"
}

approve() {
	echo approved >&"${verdict_of[$1]}"
}

# Stops a process from outside, as a hypervisor or a debugger would, and sees that it has stopped.
freeze() {
	local pid=${pid_of[$1]} state=''
	kill -STOP "$pid"
	for _ in {1..100}; do
		read -r _ _ state _ <"/proc/$pid/stat"
		[[ $state == T ]] && return
		sleep 0.01
	done
	fail "worker $1 does not stop"
}

# ---- an act

# play DATABASE [STATEMENT]: the scene on fresh data, after the statement if there is one. Leaves
# worker 1's exit status in $late_write and the outcome in $balance and $ledger.
play() {
	local -x PGDATABASE=$1
	local statement=${2-} facts expiry

	sql -d postgres -c "CREATE DATABASE $PGDATABASE"
	(cd "$tree/demo/ledger" && sql -f schema.sql)

	act_began=${EPOCHREALTIME/./}
	facts=$(sql -c "
		SELECT count(*) || ' wallets, ' || sum(entries) || ' ledger entries; '
			|| count(*) FILTER (WHERE balance <> total) || ' balances differ from their ledger'
		FROM wallet, LATERAL (SELECT count(*) AS entries, sum(amount) AS total
			FROM ledger WHERE wallet_id = wallet.id) AS book")
	say database "$facts"
	if [[ -n $statement ]]; then
		say database "$statement" "$bold"
		sql -c "$statement" >/dev/null
	fi

	start_worker 1 payout "$amount_1" 'Payout to bank account'
	follow 1 checks
	freeze 1
	say director 'SIGSTOP to worker 1: the machine is suspended' "$bold"
	approve 1
	expiry=$(sql -c "SELECT expires_at FROM fencing.lookup('wallet:$wallet')")

	start_worker 2 card "$amount_2" 'Hotel Seeblick'
	follow 2 granted
	facts=$(sql -c "
		SELECT floor(1000 * extract(epoch FROM acquired_at - '$expiry'))
		FROM fencing.lookup('wallet:$wallet') WHERE holder = 'worker 2'")
	[[ $facts =~ ^[0-9]+$ ]] || fail 'worker 2 was granted a lease that had not run out'
	say database "worker 1's lease ran out $facts ms before this grant"
	approve 2
	finish 2
	((status == 0)) || fail "worker 2 should have booked its payment (exit status $status)"

	say director 'SIGCONT to worker 1: it does not know that it has slept' "$bold"
	kill -CONT "${pid_of[1]}"
	finish 1
	late_write=$status

	facts=$(sql -c "
		SELECT balance, (SELECT sum(amount) FROM ledger WHERE wallet_id = wallet.id)
		FROM wallet WHERE id = $wallet")
	IFS='|' read -r balance ledger <<<"$facts"
	say database "wallet $wallet: balance $balance, its ledger entries add up to $ledger" "$bold"
}

play_both() {
	echo
	echo "${bold}Act 1: no guard$plain"
	play unguarded
	[[ $late_write == 0 && $balance == "$after_1" && $ledger == "$after_both" ]] ||
		fail "act 1: expected balance $after_1 and ledger $after_both; worker 1's exit status: $late_write"
	echo "${red}Wrong.$plain Worker 2's write is destroyed: ${amount_2#-} were spent and are still in the wallet."

	echo
	echo "${bold}Act 2: the same workers and the same statements; the table is protected$plain"
	play guarded "SELECT fencing.protect('wallet', 'fence_token')"
	[[ $late_write == 3 && $balance == "$after_2" && $ledger == "$after_2" ]] ||
		fail "act 2: expected TK001, balance and ledger $after_2; worker 1's exit status: $late_write"
	echo "${green}Right.$plain The late write was refused, and its ledger entry with it: nothing is overwritten."
}
