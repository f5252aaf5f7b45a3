# 040_pgbouncer: behind PgBouncer in transaction mode, where one server connection goes from client to client, nothing
# of one client's token reaches the next, and leases, guards and the seal work as without it (I5, I6, I8, I9).
#
# Each mistake that leaves something behind in the session is made on a server connection that has used the library and
# on a fresh one, whose first use of it is the next client's write. That the setting really has reached the next client
# is looked at as well.
# Caught here: a token that counts in a later transaction than the one that set it; a bind that lives in the session; a
# lease that belongs to a connection; a refusal of the COMMIT that comes late, and to another client.
use strict;
use warnings;

use FencingBouncer;
use FencingSession;
use FencingTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fencing_node('main');
$node->append_conf('postgresql.conf', "log_statement = none\n");
$node->start;
$node->safe_psql('postgres', <<'SQL');
CREATE EXTENSION fencing;
CREATE ROLE worker LOGIN;
CREATE ROLE with_token LOGIN;
ALTER ROLE with_token SET fencing.token = 60;
GRANT EXECUTE ON FUNCTION fencing.acquire, fencing.renew, fencing.release, fencing.bind TO worker, with_token;
CREATE TABLE account (id int PRIMARY KEY, balance int, fence_token bigint);
INSERT INTO account SELECT n, 0 FROM generate_series(1, 8) n;
CREATE TABLE wallet (LIKE account INCLUDING ALL);
INSERT INTO wallet TABLE account;
SELECT fencing.protect('account', 'fence_token');
SELECT fencing.protect('wallet', 'fence_token', resource => 'wallet:{id}');
CREATE TABLE ledger (client int, token bigint, stamped bigint);
GRANT SELECT, UPDATE ON account, wallet TO worker, with_token;
GRANT SELECT, INSERT ON ledger TO worker;
SQL

my $bouncer = FencingBouncer->new($node, users => [ 'worker', 'with_token' ], databases => <<'POOLS');
one = CONNECTION dbname=postgres pool_size=1
two = CONNECTION dbname=postgres pool_size=2
lease = CONNECTION dbname=postgres pool_size=1
brings = CONNECTION dbname=postgres pool_size=1 connect_query='SET fencing.token = 60'
session = CONNECTION dbname=postgres pool_size=1 pool_mode=session
statement = CONNECTION dbname=postgres pool_size=1 pool_mode=statement
POOLS
note('PgBouncer ' . $bouncer->version);

my $write = 'UPDATE account SET balance = balance + 1 WHERE id = 1 RETURNING fence_token';
my $guarded = 'UPDATE wallet SET balance = balance + 1 WHERE id = 1 RETURNING fence_token';

sub client { my ($pool, %options) = @_; return $bouncer->client($pool, user => 'worker', %options); }

sub backend { my ($client) = @_; return $client->get('SELECT pg_backend_pid()'); }

# The token of a grant, '' for none.
sub acquire
{
	my ($client, $resource, $more) = @_;
	return $client->get("SELECT token FROM fencing.acquire('$resource', '1 hour'" . ($more || '') . ')');
}

# What the client's next transactions may do, whatever was there before: nothing without a token of their own, and all
# with it.
sub carries_nothing
{
	my ($client, $token, $name) = @_;
	my @got = map { $client->state_of($_) } $write, $guarded;
	push @got, $client->get('SELECT count(*) FROM fencing.bound()');
	$client->get('BEGIN');
	push @got, $client->state_of($guarded);
	$client->get('ROLLBACK');
	$client->get('BEGIN');
	$client->get("SELECT fencing.bind('wallet:1', $token)");
	push @got, $client->get($guarded);
	$client->get('COMMIT');
	return is(join(' ', @got), "TK002 TK002 0 TK002 $token", $name);
}

# The server connections of the pools end; the next transaction gets a fresh one.
sub fresh_connections
{
	my $others = q(FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid());
	$node->safe_psql('postgres', "SELECT pg_terminate_backend(pid) $others");
	$node->poll_query_until('postgres', "SELECT count(*) = 0 $others") or die "the connections stay\n";
	return until_true(sub { !$bouncer->admin('SHOW SERVERS') }, 30) || die "PgBouncer does not see that they have ended\n";
}

# ---- one server connection, two clients: what the first leaves

my $token = acquire(FencingSession->new($node), 'wallet:1');
my $bind = "SELECT fencing.bind('wallet:1', $token)";
my @mistakes = (
	['SET', "SET fencing.token = $token", 1],
	['set_config', "SELECT set_config('fencing.token', '$token', false)", 1],
	['SET in a transaction', "BEGIN; SET fencing.token = $token; COMMIT", 1],
	['SET in a chain', "BEGIN; SET fencing.token = $token; COMMIT AND CHAIN; COMMIT", 1],
	['SET, then SET LOCAL', "SET fencing.token = $token; BEGIN; SET LOCAL fencing.token = 5; COMMIT", 1],
	['SET rolled back', "BEGIN; SET fencing.token = $token; ROLLBACK", 0],
	['SET LOCAL', "BEGIN; SET LOCAL fencing.token = $token; COMMIT", 0],
	['SET LOCAL outside a transaction', "SET LOCAL fencing.token = $token", 0],
	['SET LOCAL in a failed transaction', "BEGIN; SET LOCAL fencing.token = $token; SELECT 1 / 0; COMMIT", 0],
	['bind in a transaction', "BEGIN; $bind; COMMIT", 0],
	['bind outside a transaction', $bind, 0],
	['bind in a savepoint', "BEGIN; SAVEPOINT s; $bind; ROLLBACK TO s; COMMIT", 0],
	['bind in a failed transaction', "BEGIN; $bind; SELECT 1 / 0; ROLLBACK", 0],
	['a transaction refused at its last statement', "BEGIN; $bind; UPDATE wallet SET balance = 0 WHERE id = 2; COMMIT", 0]);
{
	my ($first, $second) = (client('one'), client('one'));
	foreach my $fresh (0, 1)
	{
		foreach my $mistake (@mistakes)
		{
			my ($name, $statements, $stays) = @$mistake;
			$name .= ', on a fresh connection' if $fresh;
			fresh_connections() if $fresh;
			$first->ask($_) foreach split /; /, $statements;
			is(backend($second), backend($first), "$name: the second client has the server connection of the first");
			is($second->get(q(SELECT coalesce(current_setting('fencing.token', true), ''))) eq $token, !!$stays,
				$stays ? '... and its setting' : '... without its setting');
			carries_nothing($second, $token, '... and no token');
			carries_nothing($first, $token, '... nor has the first, in its next transaction');
			$first->get('RESET fencing.token');
		}
	}

	# What the README says to who has made the mistake.
	$first->ask("SET fencing.token = $token");
	$first->ask($write);
	like($first->errors, qr/HINT: .*SET LOCAL fencing\.token/, 'a SET in autocommit: the HINT of the refused write');
	$first->get('RESET fencing.token');
	$first->get($bind);
	$first->ask($guarded);
	like($first->errors, qr/HINT: .*in autocommit each statement is one of its own/, 'a lone bind: the HINT of the refused write');
}

# ---- what the connection brings along

foreach my $case (
	['a role with a token', 'one', user => 'with_token'],
	['a pool whose connect_query sets one', 'brings'])
{
	my ($name, $pool, @options) = @$case;
	fresh_connections();
	my $client = client($pool, @options);
	is($client->get('SHOW fencing.token'), '60', "$name: the setting is there");
	carries_nothing($client, $token, '... and does not count');
}
{
	# A startup option is not the pool's to keep: PgBouncer refuses it, or leaves it out.
	local $ENV{PGOPTIONS} = '-c fencing.token=60';
	my ($rows, $errors) = ('', '');
	IPC::Run::run(['psql', '-XAtq', '-d', $bouncer->connstr('one') . ' user=worker', '-c', 'SHOW fencing.token'], '>', \$rows, '2>', \$errors);
	like("$rows$errors", qr/unsupported startup parameter/, 'PGOPTIONS is refused');

	my $ignoring = FencingBouncer->new($node, users => ['worker'],
		settings => "ignore_startup_parameters = options, fencing.token\n", databases => 'one = CONNECTION dbname=postgres pool_size=1');
	my $client = $ignoring->client('one', user => 'worker', options => '-c fencing.token=60');
	is($client->get(q(SELECT coalesce(current_setting('fencing.token', true), ''))), '', 'PGOPTIONS that is ignored does not arrive');
	carries_nothing($client, $token, '... and counts for nothing');
	$ignoring->stop;
	if ($bouncer->version >= 12000)
	{
		# What PgBouncer is told to track it takes from the client, but brings to the server only what the server reports.
		my $tracking = FencingBouncer->new($node, users => ['worker'], settings => "track_extra_parameters = fencing.token\n",
			databases => 'one = CONNECTION dbname=postgres pool_size=1');
		$client = $tracking->client('one', user => 'worker', options => '-c fencing.token=60');
		carries_nothing($client, $token, 'PGOPTIONS with a setting that is tracked counts for nothing');
		$tracking->stop;
	}
}

# ---- a client that dies in the middle

foreach my $case (
	['a client dies after SET', "SET fencing.token = $token", 1],
	['a client dies in a transaction with SET LOCAL', "BEGIN; SET LOCAL fencing.token = $token", 0],
	['a client dies in a transaction that is bound and has written', "BEGIN; $bind; $guarded", 0])
{
	my ($name, $statements, $same) = @$case;
	my ($dying, $next) = (client('one'), client('one'));
	my $backend = backend($dying);
	my $before = $next->get('SELECT balance FROM wallet WHERE id = 1');
	$dying->get($_) foreach split /; /, $statements;
	undef $dying;    # kill -9
	is(backend($next) eq $backend, !!$same, "$name: the next gets " . ($same ? 'its connection' : 'another connection'));
	is($next->get('SELECT balance FROM wallet WHERE id = 1'), $before, '... nothing of it is written');
	carries_nothing($next, $token, '... and no token');
}

# ---- what resets the connection

{
	my $resetting = FencingBouncer->new($node, users => ['worker'],
		settings => "server_reset_query = DISCARD ALL\nserver_reset_query_always = 1\n",
		databases => 'one = CONNECTION dbname=postgres pool_size=1');
	my ($first, $second) = map { $resetting->client('one', user => 'worker') } 1, 2;
	my $own = acquire($first, 'wallet:3');
	$first->get("SET fencing.token = $token");
	is(backend($first), backend($second), 'DISCARD ALL after each transaction: one server connection');
	is($second->get('SHOW fencing.token'), '', '... no setting is left');
	carries_nothing($second, $token, '... and no token');
	$second->get("SELECT fencing.bind('wallet:3', $own)");
	is($second->get("UPDATE wallet SET balance = 1 FROM fencing.bind('wallet:3', $own) WHERE id = 3 RETURNING fence_token"),
		$own, '... the lease goes on');
	is($first->get("SELECT fencing.release('wallet:3', $own)"), 't', '... until it is released');
	$resetting->stop;
}

# ---- leases: no connection owns one

{
	my ($holder, $other, $third) = map { client('two') } 1 .. 3;
	my $own = acquire($holder, 'wallet:2', q(, 'w1'));
	# Who keeps a connection in a transaction makes the other take the second one.
	$third->get('BEGIN');
	my $kept = backend($third);
	isnt(backend($holder), $kept, 'two server connections');
	is($holder->get("SELECT fencing.renew('wallet:2', $own, '2 hours') > clock_timestamp() + interval '1 hour'"), 't',
		'renew, on one of them');
	$holder->get('BEGIN');
	$third->get('COMMIT');
	is(backend($other), $kept, 'the other one');
	is(acquire($other, 'wallet:2', q(, 'w2')), '', '... acquire: no row');
	is($other->get("SELECT fencing.renew('wallet:2', $own) > clock_timestamp()"), 't', '... renew');
	is($other->get("SELECT fencing.renew('wallet:2', $own - 1) IS NULL"), 't', '... renew with another token: lost');
	my $taken = acquire($other, 'wallet:2', q(, 'w1', steal => 'same_holder'));
	cmp_ok($taken, '>', $own, '... acquire for the same holder: a greater token');
	$holder->get('COMMIT');
	is($holder->get("SELECT fencing.release('wallet:2', $own)"), 'f', 'release with the old token');
	is($holder->get("SELECT fencing.release('wallet:2', $taken)"), 't', '... with the current one');
	is($third->get("SELECT fencing.release('wallet:2', $taken)"), 'f', '... a second time');
}

# ---- bind, write, COMMIT

# Two clients in the same state; one of them has become stale.
foreach my $how ('bind', 'SET LOCAL')
{
	my ($stale, $fine, $thief) = (client('two'), client('two'), client('lease'));
	my $anyway = q(, steal => 'always');
	my %own = (4 => acquire($stale, 'wallet:4', $anyway), 5 => acquire($fine, 'wallet:5', $anyway));
	foreach my $case ([ $stale, 4 ], [ $fine, 5 ])
	{
		my ($client, $id) = @$case;
		$client->get('BEGIN');
		$client->get($how eq 'bind' ? "SELECT fencing.bind('wallet:$id', $own{$id})" : "SET LOCAL fencing.token = $own{$id}");
		is($client->get("UPDATE wallet SET balance = 7 WHERE id = $id RETURNING fence_token"), $own{$id}, "$how, write");
	}
	my $lost = $own{4};
	my $granted = acquire($thief, 'wallet:4', $anyway);
	cmp_ok($granted, '>', $own{5}, '... others are granted the resource of the one while both transactions are open');
	$_->send('COMMIT') foreach $stale, $fine;
	$_->wait foreach $stale, $fine;
	is($stale->sqlstate . ' ' . $fine->sqlstate, 'TK001 00000', '... the refusal of the COMMIT reaches that client, and no other');
	like($stale->errors, qr/DETAIL: .*Presented token $lost, current token $granted/, '... and says who lost against whom');
	is($fine->get("SELECT string_agg(id || ':' || balance, ' ' ORDER BY id) FROM wallet WHERE id IN (4, 5)"), '4:0 5:7',
		'... the one is not written, the other is');
	# Both server connections, the refused one among them, serve on.
	$stale->get('BEGIN');
	$fine->get('BEGIN');
	is($_->get('SELECT count(*) FROM fencing.bound()'), 0, '... the next transaction is bound to nothing') foreach $stale, $fine;
	$_->get('ROLLBACK') foreach $stale, $fine;
	$node->safe_psql('postgres', qq(BEGIN; SET LOCAL fencing.enforcement = off; UPDATE wallet SET balance = 0; COMMIT;));
}

# In observe mode the warning of the COMMIT arrives, too, and the transaction is committed.
{
	$node->safe_psql('postgres', q(SELECT fencing.protect('wallet', 'fence_token', resource => 'wallet:{id}', mode => 'observe')));
	my ($stale, $fine) = (client('two'), client('two'));
	my $own = acquire($stale, 'wallet:6');
	$stale->get('BEGIN');
	$stale->get("SET LOCAL fencing.token = $own");
	$stale->get('UPDATE wallet SET balance = 7 WHERE id = 6');
	acquire($fine, 'wallet:6', q(, steal => 'always'));
	$fine->get('BEGIN');
	$_->send('COMMIT') foreach $stale, $fine;
	$_->wait foreach $stale, $fine;
	is($stale->sqlstate, '00000', 'observed: a stale COMMIT passes');
	like($stale->errors, qr/WARNING: +(TK001: )?stale fencing token for resource "wallet:6"/, '... with a warning to its client');
	is($fine->errors, '', '... and to no other');
	is($fine->get('SELECT balance FROM wallet WHERE id = 6'), '7', '... and it is written');
	$node->safe_psql('postgres', q(SELECT fencing.protect('wallet', 'fence_token', resource => 'wallet:{id}')));
}

# ---- a pool that is used up

# A sleeper holds nothing that acquire waits for, but it does hold a server connection. Whoever wants one of the same
# pool waits in PgBouncer; a pool of its own for the lease calls keeps the promise (I6).
{
	my ($sleeper, $successor, $apart) = (client('one'), client('one'), client('lease'));
	my $own = acquire($sleeper, 'wallet:7');
	$sleeper->get('BEGIN');
	$sleeper->get("SELECT fencing.bind('wallet:7', $own)");
	$sleeper->get('UPDATE wallet SET balance = 7 WHERE id = 7');
	$successor->send(q(SELECT token FROM fencing.acquire('wallet:7', '1 hour', steal => 'always')));
	ok(until_true(sub { $bouncer->waiting('one') == 1 }, 30), 'acquire waits in the pool that a sleeper has used up');
	my $granted = acquire($apart, 'wallet:7', q(, steal => 'always'));
	cmp_ok($granted, '>', $own, '... and is granted at once in a pool of its own');
	is($sleeper->state_of('COMMIT'), 'TK001', '... the sleeper is refused');
	cmp_ok($successor->wait, '>', $granted, '... and now the other is served as well');
}

# ---- the settings that are not a token are settings like any other

{
	my ($first, $second) = map { $bouncer->client('one') } 1, 2;    # a superuser
	$first->get('SET fencing.enforcement = off');
	is($second->state_of($write), '00000', 'SET fencing.enforcement = off reaches the next client of the same user');
	$first->get('RESET fencing.enforcement');
	$first->get('BEGIN');
	$first->get('SET LOCAL fencing.enforcement = off');
	$first->get('COMMIT');
	is($second->state_of($write), 'TK002', '... SET LOCAL does not');
}

# ---- the other pool modes

{
	my $first = client('session');
	my $backend = backend($first);
	$first->get("SET fencing.token = $token");
	$first->get('SET application_name = left');
	$first->close;
	my $second = client('session');
	is(backend($second), $backend, 'session mode: the next client has the server connection of the first');
	is($second->get(q(SELECT coalesce(current_setting('fencing.token', true), ''))), '', '... DISCARD ALL has been there');
	carries_nothing($second, $token, '... and no token');
}
{
	my $client = client('statement');
	my $own = acquire($client, 'wallet:8');
	is($client->get("UPDATE wallet SET balance = 1 FROM fencing.bind('wallet:8', $own) WHERE id = 8 RETURNING fence_token"), $own,
		'statement mode: a statement that binds');
	is($client->get("UPDATE wallet SET balance = 2, fence_token = $own WHERE id = 8 RETURNING balance"), 2, '... or names the column');
	is($client->get("UPDATE account SET balance = 2 FROM set_config('fencing.token', '$own', true) WHERE id = 8 RETURNING fence_token"),
		$own, '... or sets the token');
	is($client->state_of('UPDATE wallet SET balance = 3 WHERE id = 8'), 'TK002', '... and the next one carries none');
	is($client->get("SELECT fencing.release('wallet:8', $own)"), 't', '... release');
	$client->ask('BEGIN');
	like($client->errors, qr/transaction blocks not allowed/, '... a transaction of several statements is refused by PgBouncer');
}

# ---- many clients at a time

# Each has a resource of its own; a token that reached another client, or a refusal that did, would end the run. Between
# them others try to write without a token. Protocol-level prepared statements pass since PgBouncer 1.21.
{
	my $transactions = 40;
	my $clients = 8;
	append_to_file("$node->{_basedir}/holder.sql", <<'SQL');
SELECT token FROM fencing.acquire('wallet:' || :client_id + 1, '1 hour', steal => 'always') \gset
BEGIN;
SELECT fencing.bind('wallet:' || :client_id + 1, :token);
UPDATE wallet SET balance = balance + 1 WHERE id = :client_id + 1 RETURNING fence_token AS stamped \gset
INSERT INTO ledger VALUES (:client_id, :token, :stamped);
COMMIT;
SELECT set_config('fencing.token', :token::text, false);
DO $$ BEGIN
	UPDATE wallet SET balance = 1000000;
	RAISE 'written without a token';
EXCEPTION WHEN SQLSTATE 'TK002' THEN NULL;
END $$;
SQL
	my $many = FencingBouncer->new($node, users => ['worker'], databases => 'two = CONNECTION dbname=postgres pool_size=2',
		settings => $bouncer->version >= 12100 ? "max_prepared_statements = 100\n" : '');
	foreach my $protocol ('simple', 'extended', $many->version >= 12100 ? 'prepared' : ())
	{
		$node->safe_psql('postgres', 'TRUNCATE ledger');
		my $errors = '';
		# A thread for each client, since pgbench waits for the answer when it prepares.
		my $done = IPC::Run::run(
			['pgbench', '-n', '-M', $protocol, '-c', $clients, '-j', $clients, '-t', $transactions, '-f', "$node->{_basedir}/holder.sql",
				$many->connstr('two') . ' user=worker'], '>', '/dev/null', '2>', \$errors, IPC::Run::timeout(180));
		ok($done, "$clients clients on two server connections, protocol $protocol") or diag($errors);
		is($node->safe_psql('postgres', 'SELECT count(*), count(DISTINCT token), count(*) FILTER (WHERE token <> stamped) FROM ledger'),
			join('|', ($clients * $transactions) x 2, 0), '... every transaction is there, with the token of its own client');
	}
	cmp_ok($node->safe_psql('postgres', 'SELECT max(balance) FROM wallet'), '<', 1000000, '... and no write without a token');
	$many->stop;
}

done_testing();
