# 001_crash_token: I1, never twice. A token that any client has seen is never handed out again, whatever became
# of the transaction that drew it, when the whole server or one backend dies by kill -9.
#
# Each crash round checks one way of drawing that leaves WAL unflushed in a plain nextval(). The first twenty
# run the same on a plain sequence beside it, and that one has to fail: a test that cannot is worth nothing.
# Caught here: no flush after the draw; a flush only by the caller that wrote the WAL record; a flush only at
# commit, or only with synchronous_commit on; a record written ahead that counts before it, or the one before it, is on disk;
# log_cnt believed after the sequence has got new storage; a fast_forward that is not flushed, or logged as a difference; draws
# from a sequence that the running transaction has altered, whose ROLLBACK brings the old position back.
use strict;
use warnings;

use FencingSession;
use FencingTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fencing_node('main');
$node->append_conf('postgresql.conf', own_flush_conf() . <<'CONF');
shared_buffers = 16MB
log_statement = none
restart_after_crash = on
CONF
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION fencing; CREATE SEQUENCE plain');

my $highest = 0;
my $repeated = 0;

sub seen
{
	my ($token) = @_;
	die "not a token: '$token'\n" if $token !~ /^\d+$/;
	$repeated++ if $token <= $highest;
	$highest = $token;
	return $token;
}

# Forget the values that earlier draws have logged ahead: the next draw has to write WAL. Without this a round
# would live on what the round before has flushed.
sub use_up_log_ahead
{
	$node->safe_psql('postgres', "SELECT setval('$_', last_value) FROM $_") foreach 'fencing.token_seq', 'plain';
	my $ahead = $node->safe_psql('postgres', 'SELECT a.log_cnt + b.log_cnt FROM fencing.token_seq a, plain b');
	die "the sequences have logged $ahead values ahead\n" if $ahead ne '0';
	return;
}

sub crash_and_restart
{
	crash_server($node);
	$node->start;
	return;
}

sub next_is_greater
{
	my ($case) = @_;
	my $before = $highest;
	my $token = $node->safe_psql('postgres', 'SELECT fencing.next_token()');
	cmp_ok($token, '>', $before, $case);
	$highest = $token if $token > $highest;
	use_up_log_ahead();
	return;
}

# Twenty crashes: A has written the WAL record and leaves its transaction open, B draws from the log-ahead
# and commits. In every second round A takes the value by hand, as a superuser can: nothing is flushed then
# but by B.
my $plain_reissued = 0;
my $plain_highest = 0;
foreach my $round (1 .. 20)
{
	my $logger = FencingSession->new($node);
	my $drawer = FencingSession->new($node);
	my $draw = $round % 2 ? 'fencing.next_token()' : q(nextval('fencing.token_seq'));

	$logger->get('BEGIN');
	seen($logger->get("SELECT $draw"));
	seen($drawer->get('SELECT fencing.next_token()'));
	$drawer->get('BEGIN');
	seen($drawer->get('SELECT fencing.next_token()'));
	$drawer->get('COMMIT');
	# After the flushes above, so that they do not cover it.
	$logger->get(q(SELECT nextval('plain')));
	$drawer->get('BEGIN');
	$plain_highest = $drawer->get(q(SELECT nextval('plain')));
	$drawer->get('COMMIT');

	crash_and_restart();
	next_is_greater("round $round: nothing seen before the crash comes again");
	my $plain = $node->safe_psql('postgres', q(SELECT nextval('plain')));
	$plain_reissued++ if $plain <= $plain_highest;
	use_up_log_ahead();
}
cmp_ok($plain_reissued, '>=', 1, "a plain sequence repeats committed values in the same rounds ($plain_reissued of 20)");

# So many draws in a row: each record covers 256 values, and from the second on it is written long before they are needed.
foreach my $count (1, 2, 3, 255 .. 259, 511 .. 515, 767 .. 771)
{
	my $drawer = FencingSession->new($node);
	$drawer->get('BEGIN');
	seen($drawer->get("SELECT max(fencing.next_token()) FROM generate_series(1, $count)"));
	crash_and_restart();
	next_is_greater("the last of $count drawn in a row is not issued again");
}

# One crash for each other way to see a token.
my @cases = (
	['drawn in an open transaction', 'BEGIN', 'SELECT fencing.next_token()'],
	['drawn and rolled back', 'BEGIN', 'SELECT fencing.next_token()', 'ROLLBACK'],
	['drawn, undone by ROLLBACK TO, still open',
		'BEGIN', 'SAVEPOINT s', 'SELECT fencing.next_token()', 'ROLLBACK TO s'],
	['drawn with synchronous_commit off', 'SET synchronous_commit = off', 'SELECT fencing.next_token()'],
	['drawn in a function whose error is caught', q(
		DO $$ BEGIN
			RAISE NOTICE 'token %', fencing.next_token();
			RAISE division_by_zero;
		EXCEPTION WHEN division_by_zero THEN NULL; END $$)],
	['granted in an open transaction', 'BEGIN', q(SELECT token FROM fencing.acquire('open'))],
	['granted and rolled back', 'BEGIN', q(SELECT token FROM fencing.acquire('back')), 'ROLLBACK'],
	['granted, undone by ROLLBACK TO, still open',
		'BEGIN', 'SAVEPOINT s', q(SELECT token FROM fencing.acquire('savepoint')), 'ROLLBACK TO s'],
	['granted with synchronous_commit and durable_grants off', 'SET synchronous_commit = off',
		'SET fencing.durable_grants = off', q(SELECT token FROM fencing.acquire('async'))],
	['what fast_forward returned in an open transaction', 'BEGIN', 'SELECT fencing.fast_forward(:highest + 1000)'],
	['what fast_forward returned, rolled back', 'BEGIN', 'SELECT fencing.fast_forward(:highest + 1000)', 'ROLLBACK'],
	['drawn after a checkpoint', 'SELECT fencing.next_token()', 'CHECKPOINT', 'SELECT fencing.next_token()'],
	# Replay starts from a position logged ahead: a record of what has changed on the page would miss a byte.
	['what fast_forward returned, a byte away from where it stood', ('SELECT fencing.next_token()') x 3,
		'SELECT fencing.fast_forward(:highest + 256)'],
	['what fast_forward returned with synchronous_commit off', 'SET synchronous_commit = off',
		'SELECT fencing.fast_forward(:highest + 1000)'],
	# The server copies log_cnt, but not the record that it counts.
	['drawn after ALTER SEQUENCE ... AS its own type', 'ALTER SEQUENCE fencing.token_seq MAXVALUE 9007199254740992',
		'SELECT fencing.next_token()', 'ALTER SEQUENCE fencing.token_seq AS bigint', 'SELECT fencing.next_token()']);
push @cases,
  ['drawn after ALTER SEQUENCE ... SET LOGGED', 'SELECT fencing.next_token()',
	'ALTER SEQUENCE fencing.token_seq SET UNLOGGED', 'ALTER SEQUENCE fencing.token_seq SET LOGGED', 'SELECT fencing.next_token()'],
  ['what fast_forward returned after ALTER SEQUENCE ... SET LOGGED and nextval()', 'SELECT fencing.next_token()',
	'ALTER SEQUENCE fencing.token_seq SET UNLOGGED', 'ALTER SEQUENCE fencing.token_seq SET LOGGED',
	q(SELECT nextval('fencing.token_seq') IS NULL), 'SELECT fencing.fast_forward(1)']
  if $node->pg_version >= 15; # with which sequences can be unlogged
foreach my $case (@cases)
{
	my ($name, @statements) = @$case;
	my $session = FencingSession->new($node);
	my $before = $highest;
	foreach my $statement (@statements)
	{
		$statement =~ s/:highest/$highest/;
		my $answer = $session->get($statement);
		seen($answer) if $answer =~ /^\d+$/;
		seen($1) if $session->errors =~ /NOTICE:  token (\d+)/;
	}
	cmp_ok($highest, '>', $before, "$name: a token was seen");
	crash_and_restart();
	next_is_greater("$name: not issued again after a crash");
}

# The out-of-memory killer's way: one idle backend dies, the postmaster throws everybody out and recovers.
{
	my $logger = FencingSession->new($node);
	my $drawer = FencingSession->new($node);
	my $victim = FencingSession->new($node);
	$logger->get('BEGIN');
	seen($logger->get(q(SELECT nextval('fencing.token_seq'))));
	seen($drawer->get('SELECT fencing.next_token()'));
	kill 'KILL', $victim->pid;
	ok(until_true(sub { $drawer->state_of('SELECT 1') eq 'lost' }), 'the death of one backend ends all sessions');
	back_again($node);
	next_is_greater('kill -9 of one unrelated backend: not issued again');
}

# A database takes the place of the one that it was copied from: by its OID it is the same, and goes on in the same epoch.
if ($node->pg_version >= 15)
{
	my $oid = $node->safe_psql('postgres', <<'SQL');
CREATE DATABASE replaced;
SELECT oid FROM pg_database WHERE datname = 'replaced';
SQL
	my $last = $node->safe_psql('replaced', 'CREATE EXTENSION fencing; SELECT max(fencing.next_token()) FROM generate_series(1, 3)');
	$node->safe_psql('postgres', $_)
	  foreach 'CREATE DATABASE copy TEMPLATE replaced', 'DROP DATABASE replaced', "CREATE DATABASE replaced TEMPLATE copy OID $oid";
	my $drawn = $node->safe_psql('replaced', 'SELECT max(fencing.next_token()) FROM generate_series(1, 3)');
	is($drawn, $last + 3, 'a copy with the OID of its source goes on where that stood');
	crash_and_restart();
	cmp_ok($node->safe_psql('replaced', 'SELECT fencing.next_token()'), '>', $drawn, 'and issues nothing again after a crash');
}

# ALTER SEQUENCE ... ROLLBACK brings the old positions back, with the tokens drawn meanwhile: no draw then.
my %rewrites = (
	'ALTER SEQUENCE' => 'ALTER SEQUENCE fencing.token_seq RESTART WITH 1000000',
	'TRUNCATE RESTART IDENTITY' => 'TRUNCATE fencing.owner_of_sequence RESTART IDENTITY');
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE fencing.owner_of_sequence (t bigint);
ALTER SEQUENCE fencing.token_seq OWNED BY fencing.owner_of_sequence.t;
SQL
foreach my $name (sort keys %rewrites)
{
	my $session = FencingSession->new($node);
	foreach my $call ('SELECT fencing.next_token()', q(SELECT token FROM fencing.acquire('altered')),
		'SELECT fencing.fast_forward(1)')
	{
		$session->get('BEGIN');
		$session->get($rewrites{$name});
		is($session->state_of($call), '55000', "$name uncommitted: '$call' is refused");
		$session->get('ROLLBACK');
	}
	$session->get('BEGIN');
	$session->get('SAVEPOINT s');
	$session->get($rewrites{$name});
	$session->get('ROLLBACK TO s');
	is($session->state_of('SELECT fencing.next_token()'), '00000', "$name undone by ROLLBACK TO: a draw works again");
	seen($session->answer);
	$session->get('ROLLBACK');
	next_is_greater("$name rolled back: still greater than all before");
}
is($repeated, 0, 'no token was seen that was not greater than all before');

done_testing();
