# 054_evict: fencing.evict ends the sessions whose transaction holds a stale token of the resource:
# bound or written with, after savepoints, of a resource issued here or elsewhere; and nobody else. verify names those of them
# that sleep. Who may end whom is as with pg_terminate_backend. Without shared memory evict says so.
#
# Caught here: a current holder, a reader, an observer or a stranger that is ended; a sleeper that is not seen, because it
# has written instead of bound, because of a savepoint, or since it was seen once and has begun anew; what is shown after the
# transaction has ended; a session that ends others without the right to.
use strict;
use warnings;

use FencingSession;
use FencingTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fencing_node('main');
$node->append_conf('postgresql.conf', preload_conf() . "log_statement = none\n");
$node->start;
$node->safe_psql('postgres', <<'SQL');
CREATE EXTENSION fencing;
CREATE ROLE worker LOGIN;
CREATE ROLE oncall LOGIN IN ROLE pg_monitor, pg_signal_backend;
CREATE ROLE powerless LOGIN;
CREATE TABLE task (id int PRIMARY KEY, state text, fence_token bigint);
INSERT INTO task SELECT n, 'new' FROM generate_series(1, 9) n;
SELECT fencing.protect('task', 'fence_token', 'job-{id}');
CREATE TABLE account (id int PRIMARY KEY, balance int, fence_token bigint);
INSERT INTO account SELECT n, 0 FROM generate_series(1, 9) n;
SELECT fencing.protect('account', 'fence_token', 'away-{id}', issuer => 'external');
GRANT ALL ON task, account TO worker;
GRANT EXECUTE ON FUNCTION fencing.acquire, fencing.bind, fencing.advance TO worker;
GRANT EXECUTE ON FUNCTION fencing.evict TO oncall, powerless;
SQL
my $admin = FencingSession->new($node);
my $oncall = FencingSession->new($node, user => 'oncall');

sub session { return FencingSession->new($node, user => 'worker'); }

sub granted
{
	my ($session, $resource) = @_;
	return $session->get("SELECT token FROM fencing.acquire('$resource', '1 hour', steal => 'always')");
}

# How verify tells of a session.
sub told { my ($session) = @_; return $oncall->get("SELECT severity, cure FROM fencing.verify() WHERE object = 'process @{[$session->pid]}'"); }

# evicted($resource): the pids and tokens of who was ended.
sub evicted { my ($resource) = @_; return $oncall->get("SELECT pid, token, ended FROM fencing.evict('$resource') ORDER BY token"); }

is(evicted('job-1'), '', 'nobody is bound');

# ---- who is ended

my ($first, $second, $third, $current, $stranger) = map { session() } 1 .. 5;
my $one = granted($first, 'job-1');
$first->get($_) foreach 'BEGIN', "SELECT fencing.bind('job-1', $one)", q(UPDATE task SET state = 'late' WHERE id = 1);
is(evicted('job-1'), '', 'a current holder is left alone');
my $two = granted($second, 'job-1');
$second->get($_) foreach 'BEGIN', "UPDATE task SET state = 'later', fence_token = $two WHERE id = 2 AND false", 'SAVEPOINT a';
is($second->state_of("SET LOCAL fencing.token = $two"), '00000', 'the second writes under the setting');
$third->get($_) foreach 'BEGIN', q(SELECT fencing.bound());
is($second->state_of(q(SELECT fencing.bind('job-1', 1))), 'TK001', '... fails in a savepoint');
$second->get($_) foreach 'ROLLBACK TO a', "SELECT fencing.bind('job-1', $two)", 'RELEASE a';
my $three = granted($current, 'job-1');
$current->get($_) foreach 'BEGIN', "SELECT fencing.bind('job-1', $three)";
my $other = granted($stranger, 'job-10');
$stranger->get($_) foreach 'BEGIN', "SELECT fencing.bind('job-10', $other)";
granted($admin, 'job-10');

is(told($first), q(warning|SELECT * FROM fencing.evict('job-1');), 'verify tells of the first');
is(told($second), q(warning|SELECT * FROM fencing.evict('job-1');), '... and of the second');
is(told($_), '', '... and not of who is not stale') foreach $third, $current;
$node->safe_psql('postgres', 'CREATE ROLE verifier LOGIN; GRANT EXECUTE ON FUNCTION fencing.verify, fencing.get_bindings, fencing.guard_options TO verifier');
is(FencingSession->new($node, user => 'verifier')->get("SELECT count(*) FROM fencing.verify() WHERE object = 'process @{[$first->pid]}'"), '1',
	'... also to who sees nothing of others in pg_stat_activity');
is(told($stranger), q(warning|SELECT * FROM fencing.evict('job-10');), '... but of another resource');
my $log = -s $node->logfile;
is(evicted('job-1'), join("\n", join('|', $first->pid, $one, 't'), join('|', $second->pid, $two, 't')), 'both are ended');
like(slurp_file($node->logfile, $log), qr/LOG:  fencing: process \d+ is evicted from resource "job-1" by "oncall"\n.*DETAIL:  Its token is $one\./,
	'... and that is logged');
is($_->state_of('COMMIT'), 'lost', '... really') foreach $first, $second;
is(evicted('job-1'), '', 'afterwards there is nobody');
$current->get(q(UPDATE task SET state = 'done' WHERE id = 1));
is($current->state_of('COMMIT'), '00000', 'the current holder gets the row lock, and commits');
is($third->state_of('COMMIT'), '00000', 'who was not bound commits');
is($stranger->state_of('COMMIT'), 'TK001', 'who sleeps on another resource is still there');
is(told($stranger), '', '... and shows nothing any more');

# ---- who grants and works in one transaction

my $both = session();
$both->get('BEGIN');
my $open = $both->get(q(SELECT token FROM fencing.acquire('job-7', '1 hour')));
$both->get($_) foreach "SELECT fencing.bind('job-7', $open)", "UPDATE task SET state = 'mine' WHERE id = 7";
is(evicted('job-7'), '', 'a holder whose grant is not committed yet is left alone');
is(told($both), '', '... and verify does not tell of it');
is($both->state_of('COMMIT'), '00000', '... and commits');

# ---- a session that has gone on while evict waited

my $gone_on = session();
my $stale = granted($gone_on, 'job-8');
$gone_on->get($_) foreach 'BEGIN', "SELECT fencing.bind('job-8', $stale)";
granted($admin, 'job-8');
my $valid = granted($admin, 'job-9');
my $waiting = q(SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'fencing.fence'::regclass);
$admin->get('BEGIN');
$admin->send('LOCK TABLE fencing.fence IN ACCESS EXCLUSIVE MODE');
ok(until_true(sub { $stranger->get($waiting) eq '1' }), 'somebody locks the table, and waits for who is bound');
$oncall->send(q(SELECT * FROM fencing.evict('job-8')));
ok(until_true(sub { $stranger->get($waiting) eq '2' }), '... and evict waits for the table');
$gone_on->get('ROLLBACK');
$admin->wait;
$gone_on->get($_) foreach 'BEGIN', 'SELECT 1';
$admin->get('COMMIT');
is($oncall->wait, '', 'nobody is ended any more');
is($gone_on->state_of("SELECT fencing.bind('job-9', $valid)"), '00000', '... and the session works on');
$gone_on->get('ROLLBACK');

# ---- what is shown follows the transaction

my $sleeper = session();
sub sleeps { my ($resource) = @_; return $oncall->get("SELECT string_agg(resource || ' ' || lost, ',' ORDER BY resource) FROM fencing.get_bindings() WHERE pid = @{[$sleeper->pid]}"); }
my $token = granted($sleeper, 'job-2');
$sleeper->get($_) foreach 'BEGIN', 'SAVEPOINT a', "SELECT fencing.bind('job-2', $token)";
is(sleeps(), 'job-2 false', 'bound in a savepoint');
$sleeper->get('ROLLBACK TO a');
is(sleeps(), '', '... that was rolled back');
$sleeper->get("UPDATE task SET state = 'x', fence_token = $token WHERE id = 2");
is(sleeps(), 'job-2 false', 'written with');
my $newer = granted($admin, 'job-2');
is(sleeps(), 'job-2 true', '... and then granted anew');
$sleeper->get("SELECT fencing.bind('job-2', $newer)");
is(sleeps(), 'job-2 true', '... and bound to the new one: the row keeps the old');
$sleeper->get('ROLLBACK');
is(sleeps(), '', 'rolled back');
$sleeper->get("UPDATE task SET state = 'x', fence_token = @{[granted($sleeper, 'job-3')]} WHERE id = 3");
is(sleeps(), '', 'committed');
$sleeper->get($_) foreach 'BEGIN', 'SET LOCAL fencing.token = 40', 'UPDATE account SET balance = 1 WHERE id = 1';
is(sleeps(), 'away-1 false', 'a token from elsewhere that nobody has seen');
$admin->get(q(SELECT fencing.advance('away-1', 41)));
is(sleeps(), 'away-1 true', '... and one that is lost');
is(evicted('away-1'), join('|', $sleeper->pid, 40, 't'), '... is evicted');
is($sleeper->state_of('SELECT 1'), 'lost', '... really');
$sleeper = FencingSession->new($node);
$sleeper->get($_) foreach 'SET fencing.enforcement = observe', 'BEGIN', 'SET LOCAL fencing.token = 42', 'UPDATE account SET balance = 1 WHERE id = 2';
$admin->get(q(SELECT fencing.advance('away-2', 43)));
is(sleeps(), '', 'what is only observed can be committed, and is not shown');
$sleeper->get('ROLLBACK; RESET fencing.enforcement');
my @tokens = map { granted($sleeper, "many-$_") } 1 .. 6;
$sleeper->get('BEGIN');
$sleeper->get("SELECT fencing.bind('many-$_', $tokens[$_ - 1])") foreach 1 .. 6;
is(sleeps(), join(',', map { "many-$_ false" } 1 .. 4), 'the first four are seen');
my $long = 'x' x 512;
$sleeper->get('ROLLBACK');
$token = granted($sleeper, $long);
$sleeper->get($_) foreach 'BEGIN', "SELECT fencing.bind('$long', $token)";
is(sleeps(), "$long false", 'the longest name');

# ---- rights, bad input

granted($admin, $long);
my $powerless = FencingSession->new($node, user => 'powerless');
is($powerless->state_of("SELECT fencing.evict('$long')"), '42501', 'EXECUTE is not enough to end a session');
is($oncall->state_of("SELECT fencing.evict('$long')"), '42501', '... nor is pg_signal_backend for that of a superuser');
is($sleeper->state_of('SELECT 1'), '00000', '... it is there');
is(session()->state_of("SELECT fencing.evict('$long')"), '42501', 'nobody else may call it');
is($admin->state_of('SELECT fencing.evict(NULL)'), '22004', 'NULL');
is($admin->state_of(q(SELECT fencing.evict(''))), '22023', 'no name');
is($admin->get("SELECT token, ended FROM fencing.evict('$long')"), "$token|t", 'a superuser may');

# ---- many sessions come and go while others look

my @looks = map { FencingSession->new($node) } 1 .. 2;
$_->send(<<'SQL') foreach @looks;
DO $$ BEGIN FOR n IN 1..3000 LOOP
    IF EXISTS (SELECT FROM fencing.get_bindings() WHERE resource !~ '^busy-(1|2|3|4)$' OR token <> 7) THEN RAISE 'torn'; END IF;
END LOOP; END $$
SQL
$admin->get("SELECT fencing.advance('busy-$_', 7)") foreach 1 .. 4;
my @busy = map { session() } 1 .. 4;
foreach my $number (1 .. 4)
{
	$busy[$number - 1]->send("DO \$\$ BEGIN FOR n IN 1..2000 LOOP PERFORM fencing.bind('busy-$number', 7); COMMIT; END LOOP; END \$\$");
}
$_->wait, is($_->sqlstate, '00000', 'a session that binds') foreach @busy;
$_->wait, is($_->sqlstate, '00000', 'a session that looks has seen nothing torn') foreach @looks;

# ---- without being preloaded

$node->append_conf('postgresql.conf', "shared_preload_libraries = ''\n");
$node->restart;
$sleeper = FencingSession->new($node);
$token = granted($sleeper, 'job-1');
$sleeper->get($_) foreach 'BEGIN', "SELECT fencing.bind('job-1', $token)";
$admin = FencingSession->new($node);
granted($admin, 'job-1');
if ($node->pg_version >= 17)
{
	is($admin->get(q(SELECT token, ended FROM fencing.evict('job-1'))), "$token|t", '17 and later need no preloading');
}
else
{
	is($admin->state_of(q(SELECT fencing.evict('job-1'))), '55000', 'evict needs shared memory');
	is($admin->get('SELECT count(*) FROM fencing.verify()'), '0', '... verify works without');
}

done_testing();
