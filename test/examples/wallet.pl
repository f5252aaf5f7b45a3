# docs/examples/wallet with and without its lines for the fence, the version and the key of a payment: real workers that are
# stopped for longer than their leases, and killed, while they transfer. They have no rights but those of schema.sql.
#
# Finds: money that appears or vanishes; a transfer applied twice; an owner overdrawn by a worker whose lease is gone and
# whose reads are current (only the fence knows); an update lost between two threads of one holder (only the version
# knows); a payment that the other bank makes twice or never.
#
#     wallet.pl [SEED]
use strict;
use warnings;

use FencingExample;
use FencingSession;
use FencingTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed = shift // 1;
srand $seed;
my $tests = tree_root() . '/test/examples';

my $node = fencing_node('wallet');
$node->append_conf('postgresql.conf', 'max_connections = 50');
$node->start;
$node->safe_psql('postgres', "CREATE ROLE $_ LOGIN") foreach qw(owner app);

my ($folder, $database, $owner, $bank);

sub begin
{
	($database, my @marks) = @_;
	$folder = example_copy('wallet', @marks);
	$owner = example_database($node, $database, "$folder/schema.sql");
	$bank = example_database($node, "${database}_bank", "$folder/bank.sql");
	return;
}

sub dsn { return $node->connstr($_[0]) . ' user=app'; }

sub transfer
{
	my ($key, $ttl, @shards) = @_;
	return start_program({}, 'python3', "$tests/hold_transfer.py", $folder, dsn($database), $key, $ttl, @shards);
}

sub request
{
	my ($key, $source, $target, $amount) = @_;
	$owner->get("INSERT INTO request VALUES ('$key', $source, $target, $amount)");
	return;
}

sub finish
{
	my ($program) = @_;
	$program->tell('finished');
	return $program->line;
}

# Owner 1 has accounts 1 and 2 in shard 1, owner 2 accounts 3 and 4 in shard 2, and so on.
sub balance { return $owner->get("SELECT balance FROM account WHERE id = $_[0]"); }
sub in_all { return $owner->get("SELECT sum(balance) FROM account WHERE owner = $_[0]"); }

# What must be true whatever happens.
sub money_created
{
	return $owner->get('SELECT sum(balance - opening) + (SELECT coalesce(sum(amount), 0) FROM outbox) FROM account');
}
sub wrongly_applied
{
	return $owner->get(<<'SQL');
		SELECT id, balance - opening AS moved, asked FROM account, LATERAL (
			SELECT coalesce(sum(CASE WHEN source = id THEN -amount ELSE amount END), 0) AS asked
			FROM request JOIN outcome USING (key) WHERE state = 'done' AND id IN (source, target)) AS r
		WHERE balance - opening <> asked ORDER BY id
SQL
}
sub overdrawn { return $owner->get('SELECT owner FROM account GROUP BY owner HAVING sum(balance) < 0 ORDER BY owner'); }

sub sound
{
	my ($when) = @_;
	is(money_created(), '0', "$when: the sum of the money is what it was");
	is(wrongly_applied(), '', "$when: each transfer that is done has been applied once, and no other");
	is(overdrawn(), '', "$when: no owner is overdrawn");
	return;
}

# A zombie whose read is current: it may spend all that owner 1 has from account 1, sleeps past its lease, and the next
# holder lets him spend half of it from account 2. No row that the zombie writes has changed.
sub zombie
{
	my $all = in_all(1);
	request('z1', 1, 'NULL', $all);
	my $half = int($all / 2);
	request('z2', 2, 'NULL', $half);
	my $zombie = transfer('z1', 1, 1);
	like($zombie->line, qr/^lease shard:1=\d+$/, "$database: a worker has the lease of shard 1");
	is($zombie->line, 'checking z1', "$database: has read owner 1's accounts, and checks");
	$zombie->stop;
	my $successor = transfer('z2', 60, 1);
	like($successor->line, qr/^lease shard:1=\d+$/, "$database: it sleeps, and its lease goes to another");
	is($successor->line, 'checking z2', "$database: which reads the same accounts");
	is(finish($successor), 'done', "$database: and pays from the other one");
	is(in_all(1), $all - $half, "$database: half of the money is left");
	my $version = $owner->get('SELECT version FROM account WHERE id = 1');
	is($version, '0', "$database: the account that the sleeper has read is as it was");
	$zombie->wake;
	return finish($zombie);
}

# Two threads of one holder: both read account 3, and both write it.
sub two_threads
{
	my $before = balance(3);
	request('t1', 3, 4, 1000);
	request('t2', 3, 4, 500);
	my $first = transfer('t1', 60, 2);
	my ($tokens) = $first->line =~ /^lease (.*)$/;
	is($first->line, 'checking t1', "$database: a thread has read account 3");
	my $second = transfer('t2', 60, $tokens);
	is($second->line, "lease $tokens", "$database: another one of the same holder, with the same token");
	is($second->line, 'checking t2', "$database: has read it, too");
	is(finish($first), 'done', "$database: the first writes");
	is(balance(3), $before - 1000, "$database: the money has gone from account 3");
	return finish($second);
}

# A consumer is killed when it has sent a payment and has not noted it; the next one sends it again.
sub killed_consumer
{
	request('p1', 5, 'NULL', 700);
	my $payer = transfer('p1', 60, 3);
	$payer->line;
	is($payer->line, 'checking p1', "$database: a payment to the other bank");
	is(finish($payer), 'done', "$database: is carried out");
	my @command = ('python3', "$tests/hold_delivery.py", $folder, dsn($database), dsn("${database}_bank"));
	my $consumer = start_program({}, @command);
	my $line = $consumer->line;
	while ($line ne 'sent p1' && $line ne '') { $line = finish($consumer); }
	is($line, 'sent p1', "$database: and sent");
	$consumer->end;
	is($owner->get(q{SELECT count(*) FROM delivery WHERE key = 'p1'}), '0', "$database: the consumer is killed before it notes that");
	$consumer = start_program({}, @command);
	is($consumer->line, 'sent p1', "$database: the next one sends it again");
	$consumer->tell('go on');
	ok(until_true(sub { $owner->get(q{SELECT count(*) FROM delivery WHERE key = 'p1'}) eq '1' }, 60), "$database: and notes it");
	$consumer->end;
	return $bank->get(q{SELECT count(*), sum(amount) FROM payment WHERE key = 'p1'});
}

is(page_trouble('wallet', 'python'), '', 'wallet.md: what it names and shows is there');

# ---- as it stands

begin('whole');
is(zombie(), 'TK001', 'whole: the fence refuses the zombie');
sound('after the zombie');
is($owner->get(q{SELECT count(*) FROM outbox WHERE key = 'z1'}), '0', 'whole: and its payment is not in the outbox');
# Whoever writes past the program: without a token, and with the one that the zombie had.
my $app = FencingSession->new($node, dbname => 'whole', user => 'app');
my ($stale) = split /\|/, $owner->get(q{SELECT token - 1 FROM fencing.lookup('shard:1')});
$owner->get(q{INSERT INTO request VALUES ('by hand', 1, NULL, 1)});
foreach my $case (
	[ 'an account', 'UPDATE account SET balance = 0%s WHERE id = 1', ', fence_token = %d' ],
	[ 'an outcome', q{INSERT INTO outcome VALUES ('by hand', 1, 'done', %s)}, '%d' ],
	[ 'the outbox', q{INSERT INTO outbox VALUES ('z2', 1, 1, %s)}, '%d' ])
{
	my ($what, $statement, $token) = @$case;
	is($app->state_of(sprintf $statement, $token =~ /=/ ? '' : 'NULL'), 'TK002', "whole: $what, by hand without a token");
	is($app->state_of(sprintf $statement, sprintf $token, $stale), 'TK001', "whole: $what, by hand with a stale token");
}
$owner->get(q{DELETE FROM request WHERE key = 'by hand'});
is(two_threads(), 'conflict', 'whole: the version refuses the second thread');
sound('after the conflict');
is(killed_consumer(), '1|700', 'whole: the key: the other bank has paid once');

my $again = transfer('p1', 60, 3);
$again->line;
$again->line;
is(finish($again), 'conflict', 'whole: a request that has an outcome is not carried out again');
sound('after the second try');

# ---- a storm: four workers and a consumer, stopped for longer than their leases and killed

my ($number, $names, $refused, $killed, $rounds) = (0, 0, 0, 0, 0);

sub ask_for
{
	my ($count) = @_;
	my @rows = map {
		my ($source, $target) = (1 + int rand 100, 1 + int rand 100);
		$target = 'NULL' if $target == $source || rand() < 0.2;
		sprintf "('s%d', %d, %s, %d)", ++$number, $source, $target, 1 + int rand 9000;
	} 1 .. $count;
	$owner->get('INSERT INTO request VALUES ' . join ', ', @rows);
	return;
}
sub open_requests { return $owner->get('SELECT count(*) FROM request WHERE key NOT IN (SELECT key FROM outcome)'); }
sub new_worker { return start_program({}, 'python3', "$tests/storm_worker.py", $folder, dsn($database), 'worker ' . ++$names); }
sub new_consumer { return start_program({}, 'python3', "$folder/deliver.py", dsn($database), dsn("${database}_bank")); }

# A worker at its check: it holds leases, has read, and has yet to write (unless the test is slow). Its request.
sub catch
{
	my ($worker) = @_;
	$worker->lines;
	my $line;
	do { $line = $worker->line; } until $line =~ /^checking/ || $line eq '';
	$worker->stop;
	return $line =~ /^checking (\w+)/ ? $1 : die "a worker has ended\n";
}

my @workers = map { new_worker() } 1 .. 4;
my $consumer = new_consumer();
ask_for(200);
while (($refused < 6 || $killed < 6 || $number < 400) && ++$rounds <= 100)
{
	ask_for(50) if open_requests() < 60;
	my $index = int rand @workers;
	my $worker = $workers[$index];
	my $key = catch($worker);
	if ($refused <= $killed)
	{
		# Its leases run out; it sleeps until its request is done, by another.
		until_true(sub { $owner->get("SELECT count(*) FROM outcome WHERE key = '$key'") eq '1' }, 60, 0.05)
		  or die "nobody takes over $key\n";
		$worker->wake;
		my $line;
		do { $line = $worker->line; } while $line =~ /^checking/;
		$refused++ if $line eq 'TK001';
	}
	else
	{
		$worker->end;
		$workers[$index] = new_worker();
		$consumer->end;
		$consumer = new_consumer();
		$killed++;
	}
}
cmp_ok($refused, '>=', 6, "storm (seed $seed): $number requests, $rounds rounds; sleepers that woke up were refused");
cmp_ok($killed, '>=', 6, 'storm: workers and consumers were killed');
ok(until_true(sub { open_requests() eq '0' }, 120, 0.1), 'storm: all requests have an outcome');
ok( until_true(sub { $owner->get('SELECT count(*) FROM outbox WHERE key NOT IN (SELECT key FROM delivery)') eq '0' }, 60, 0.1),
	'storm: all payments are delivered');
$_->end foreach @workers, $consumer;
sound('after the storm');
my $outbox = $owner->get('SELECT key, amount FROM outbox ORDER BY key');
is($bank->get('SELECT key, amount FROM payment ORDER BY key'), $outbox, 'storm: the other bank has paid each payment once');
cmp_ok(scalar(() = $outbox =~ /\n/g), '>=', 20, 'storm: and there were some');

# ---- without the fence: leases, versions and keys alone

begin('unfenced', 'fencing');
is(zombie(), 'done', 'unfenced: nobody refuses the zombie, the version did not change');
is(overdrawn(), '1', 'unfenced: owner 1 has spent more than he had');
cmp_ok(in_all(1), '<', 0, 'unfenced: and the wallet bears the loss');

# ---- without the version: leases and the fence alone

begin('unversioned', 'version');
is(two_threads(), 'done', 'unversioned: the second thread of the holder writes what it had read before the first wrote');
isnt(wrongly_applied(), '', 'unversioned: a transfer is lost');

# ---- without the key at the bank

begin('unkeyed', 'key');
is(killed_consumer(), '2|1400', 'unkeyed: the other bank has paid twice');

done_testing();
