# 008_session_setting: fencing.token counts only in the transaction that set it. Behind a pooler a server connection
# goes from client to client; what one client has SET, or the connection, the role, the database or the configuration
# brought along, must never be the token of the next client's transaction. DISCARD ALL is not assumed.
#
# A session that has not used the library yet holds the setting as a placeholder, and loading it hands over all that
# was set before: the second half starts from fresh sessions whose first use of the library comes at the worst moment.
# Caught here: a value taken without asking who set it; a mark per session and not per transaction; one that survives
# COMMIT AND CHAIN; a value found at load that counts, or counts again when a savepoint brings it back.
use strict;
use warnings;

use FencingSession;
use FencingTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fencing_node('main');
$node->append_conf('postgresql.conf', "log_statement = none\n");
$node->start;
$node->safe_psql('postgres', <<'SQL');
CREATE EXTENSION fencing;
CREATE TABLE account (id int PRIMARY KEY, balance int, fence_token bigint);
SELECT fencing.protect('account', 'fence_token');
INSERT INTO account VALUES (1, 0, 1);
CREATE FUNCTION with_token() RETURNS int LANGUAGE sql SET fencing.token = 50 AS 'SELECT 1';
SQL

my $write = 'UPDATE account SET balance = balance + 1 WHERE id = 1 RETURNING fence_token';

sub carries_none
{
	my ($session, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($session->state_of($write), 'TK002', "$name: no token");
	return;
}

sub carries
{
	my ($session, $token, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($session->ask($write) . '|' . $session->sqlstate, "$token|00000", "$name: token $token") or diag($session->errors);
	return;
}

# Every way in which a value gets into a session or leaves it, as scripts of one connection. 'set', 'local' and so on
# are statements; a number is a write that must carry that token, 0 one that must carry none. In each, whatever the
# client before has left, the last transaction is that of a client that has set nothing.
my %statements = (
	begin => 'BEGIN', commit => 'COMMIT', rollback => 'ROLLBACK', chain => 'COMMIT AND CHAIN',
	rollback_chain => 'ROLLBACK AND CHAIN',
	savepoint => 'SAVEPOINT s', release => 'RELEASE s', rollback_to => 'ROLLBACK TO s',
	savepoint_2 => 'SAVEPOINT s2', release_2 => 'RELEASE s2', rollback_to_2 => 'ROLLBACK TO s2',
	set => 'SET fencing.token = 30', set_40 => 'SET fencing.token = 40', local => 'SET LOCAL fencing.token = 40',
	local_45 => 'SET LOCAL fencing.token = 45',
	local_30 => 'SET LOCAL fencing.token = 30', empty => q(SET LOCAL fencing.token = ''), reset => 'RESET fencing.token',
	to_default => 'SET LOCAL fencing.token TO DEFAULT', config => q(SELECT set_config('fencing.token', '30', false)),
	config_local => q(SELECT set_config('fencing.token', '40', true)), function => 'SELECT with_token()',
	error => 'SELECT 1 / 0', isolation => 'BEGIN ISOLATION LEVEL SERIALIZABLE', reset_all => 'RESET ALL',
		discard => 'DISCARD ALL');
my @scripts = (
	'set 0',
	'config 0',
	'set 0 begin 0 rollback 0',
	'begin set commit 0',
	'begin set 30 commit 0',
	'begin set 30 rollback 0',
	'begin local 40 commit 0',
	'begin local 40 40 commit begin 0 rollback',
	'begin config_local 40 commit 0',
	'begin set chain 0 rollback 0',
	'begin local chain 0 rollback 0',
	'begin set 30 chain 0 rollback 0',
	'begin set rollback_chain 0 rollback 0',
	'begin local error rollback 0',
	'begin local empty 0 rollback 0',
	'begin local to_default 0 rollback 0',
	'begin local reset 0 rollback 0',
	'begin set reset 0 rollback 0',
	'set begin local 40 commit 0',
	'set begin local_30 30 commit 0',
	'set begin local_30 30 rollback 0',
	'set begin set_40 40 rollback 0',
	'set begin savepoint local 40 rollback_to 0 rollback 0',
	'set begin savepoint local rollback_to 0 rollback 0',
	'set begin savepoint local_30 30 rollback_to 0 rollback 0',
	'set begin savepoint set_40 40 rollback_to 0 rollback 0',
	'set begin savepoint local release 40 commit 0',
	'set begin local savepoint local_45 45 rollback_to 40 commit 0',
	'set begin local savepoint local_45 rollback_to 40 commit 0',
	'set begin savepoint local rollback_to savepoint local_45 45 rollback_to 0 rollback 0',
	'begin savepoint local rollback_to 0 rollback 0',
	'begin savepoint local 40 rollback_to 0 rollback 0',
	'begin savepoint local release 40 rollback 0',
	'begin local savepoint local_45 release 45 commit 0',
	'begin local savepoint set rollback_to 40 commit 0',
	'begin set savepoint local rollback_to 30 commit 0',
	'begin set_40 local_45 45 commit 0',
	'begin set_40 savepoint local_45 release 45 commit 0',
	'begin local savepoint error rollback_to 40 commit 0',
	'isolation local 40 commit 0',
	'set function 0',
	'function 0',
	'begin function 0 rollback 0',
	'begin local function 40 rollback 0',
	'set begin function 0 rollback 0',
	'set set_40 begin savepoint local_45 45 rollback_to 0 rollback 0',
	'set begin set_40 savepoint local_45 45 rollback_to 40 rollback 0',
	'set begin set_40 local_45 45 rollback 0',
	'set begin set_40 local_45 45 commit 0',
	'set begin savepoint set_40 local_45 45 rollback_to 0 rollback 0',
	'set begin savepoint set_40 release 40 rollback 0',
	'set begin savepoint set_40 release savepoint local_45 45 rollback_to 40 rollback 0',
	'set begin savepoint local savepoint_2 local_45 45 rollback_to_2 40 rollback_to 0 rollback 0',
	'set begin savepoint local savepoint_2 set_40 release_2 40 rollback_to 0 rollback 0',
	'begin savepoint local savepoint_2 local_45 rollback_to_2 40 rollback_to 0 rollback 0',
	'set discard 0',
	'set reset_all 0');

# play($script, $loaded, ...): $loaded says what the session did before: nothing ('': the first use of the library is
# the script's own first write; 'savepoint': within a savepoint of its own), a call that only reads, or a write.
my $superuser = FencingSession->new($node);
$superuser->get('SET fencing.enforcement = off');

sub play
{
	my ($script, $loaded, %connection) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $session = FencingSession->new($node, %connection);
	my $name = {
		'' => 'first use', savepoint => 'first use in a savepoint', call => 'loaded before', write => 'used before' }->{$loaded};
	$session->get(q(SELECT count(*) FROM fencing.lookup('unknown'))) if $loaded eq 'call';
	$session->ask($write) if $loaded eq 'write';
	my (@wrong, $in_transaction);
	my $position = 0;
	foreach my $step (split / /, $script)
	{
		$position++;
		if ($step =~ /^\d+$/)
		{
			my $expected = $step || 'TK002';
			# A refusal must not end the transaction.
			my $savepoint = $in_transaction && ($expected eq 'TK002' || $loaded eq 'savepoint');
			$session->get('SAVEPOINT write') if $savepoint;
			my $rows = $session->ask($write);
			my $got = $session->sqlstate eq '00000' ? $rows : $session->sqlstate;
			$session->get('ROLLBACK TO write') if $savepoint;
			push @wrong, "step $position: $got instead of $expected" if $got ne $expected;
		}
		else
		{
			my $statement = $statements{$step} or die "no such step: $step\n";
			$session->ask($statement);
			push @wrong, "step $position: '$statement': " . $session->errors if $session->sqlstate ne '00000' && $step ne 'error';
			$in_transaction = 1 if $step =~ /^(begin|isolation)$/;
			$in_transaction = 0 if $step =~ /^(commit|rollback)$/;
		}
		last if @wrong;
	}
	is(join('; ', @wrong), '', "$name: $script");
	$session->close;
	$superuser->get('UPDATE account SET fence_token = 1');
	return;
}

foreach my $loaded ('', 'savepoint', 'call', 'write')
{
	play($_, $loaded) foreach @scripts;
}

# What the connection brought along never counts, and what a transaction sets on top of it does.
$node->safe_psql('postgres', <<'SQL');
CREATE ROLE with_token SUPERUSER LOGIN;
ALTER ROLE with_token SET fencing.token = 60;
SQL
my @brought = (
	['PGOPTIONS', options => '-c fencing.token=60'],
	['ALTER ROLE SET', user => 'with_token']);
foreach my $case (@brought)
{
	my ($name, @connection) = @$case;
	note($name);
	foreach my $loaded ('', 'call')
	{
		play($_, $loaded, @connection)
		  foreach '0', 'begin 0 rollback 0', 'begin local 40 commit 0', 'begin savepoint local 40 rollback_to 0 rollback 0',
		  'begin savepoint local rollback_to 0 rollback 0', 'set 0', 'begin local reset 0 rollback 0',
			'begin local to_default 0 rollback 0',
		  'begin set reset 0 rollback 0', 'begin reset 0 rollback 0', 'set reset 0';
	}
}
$node->safe_psql('postgres', 'ALTER DATABASE postgres SET fencing.token = 70');
play($_, '') foreach '0', 'begin 0 rollback 0', 'begin local 40 commit 0';
$node->safe_psql('postgres', 'ALTER DATABASE postgres RESET fencing.token');
$node->append_conf('postgresql.conf', 'fencing.token = 80');
$node->reload;
ok(until_true(sub { $node->safe_psql('postgres', 'SHOW fencing.token') eq '80' }, 30), 'the configuration file has a token');
play($_, '') foreach '0', 'begin 0 rollback 0', 'begin local 40 commit 0', 'begin savepoint local 40 rollback_to 0 rollback 0';
play($_, 'call') foreach '0', 'begin local 40 commit 0';

# A configuration file that is read again in the middle of a transaction takes nothing away, and gives nothing.
{
	my $session = FencingSession->new($node);
	$session->get('BEGIN');
	$session->get('SAVEPOINT s');
	carries_none($session, 'configuration file');
	$session->get('ROLLBACK TO s');
	$node->adjust_conf('postgresql.conf', 'fencing.token', '90');
	$node->reload;
	ok(until_true(sub { $session->get('SHOW fencing.token') eq '90' }, 30), 'a reload reaches the open transaction');
	carries_none($session, 'reloaded configuration file');
	$session->get('ROLLBACK');
	$session->get('BEGIN');
	$session->get('SET LOCAL fencing.token = 40');
	$node->adjust_conf('postgresql.conf', 'fencing.token', '95');
	$node->reload;
	$session->get('SELECT pg_sleep(0.2)');
	carries($session, 40, 'SET LOCAL beside a reload');
	$session->get('ROLLBACK');
}

# Statements of one message are one transaction.
{
	my $session = FencingSession->new($node);
	is($session->ask("SET fencing.token = 40\\; $write"), '40', 'SET and write in one message');
	carries_none($session, 'the next message');
	$session->get(q(CREATE PROCEDURE two_transactions(local bool, OUT second text) LANGUAGE plpgsql AS $$
		BEGIN
			PERFORM set_config('fencing.token', '41', local);
			UPDATE account SET balance = 1;
			COMMIT;
			BEGIN
				UPDATE account SET balance = 2;
				second := 'written';
			EXCEPTION WHEN SQLSTATE 'TK002' THEN second := 'refused';
			END;
		END $$));
	is($session->get("CALL two_transactions($_, NULL)"), 'refused',
		"a procedure that commits: set_config with is_local $_") foreach 'true', 'false';
	carries_none($session, 'after it');
}

done_testing();
