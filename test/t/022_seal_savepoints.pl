# 022_seal_savepoints: I5 and I6 in every short transaction. Every sequence of up to six steps from {bind 33, bind 34,
# guarded write, SAVEPOINT, ROLLBACK TO, RELEASE, a grant elsewhere}: 43,538 transactions, each against a model of
# forty lines that says how every statement and the COMMIT ends (test/libpq/savepoint_model.cpp). Every grant elsewhere
# is made at once, whatever the transaction has done. Shorter sequences for tokens issued elsewhere, and at the other
# isolation levels. In the end the tables hold what the models say: no row of a refused transaction, each fence right.
#
# Caught here: a claim that is popped from the list and not from the look-up table, or the other way round; a level
# that RELEASE loses or ROLLBACK TO keeps; a binding that hides what was written before it; a statement that is
# checked once and never again; a lock taken before the commit.
use strict;
use warnings;

use FencingSession;
use FencingTest;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fencing_node('main');
# What is looked for are answers, not crashes.
$node->append_conf('postgresql.conf', "log_statement = none\nfencing.durable_grants = off\nsynchronous_commit = off\nautovacuum = off\n");
$node->start;
my $program = compile_libpq('savepoint_model');

my $databases = 0;

# The first token that a database grants must be the program's own: a database for each thread.
sub database
{
	my ($issuer) = @_;
	my $name = 'model' . ++$databases;
	$node->safe_psql('postgres', "CREATE DATABASE $name");
	$node->safe_psql($name, <<"SQL");
CREATE EXTENSION fencing;
CREATE TABLE work (resource text, fence_token bigint);
CREATE INDEX ON work (resource);
SELECT fencing.protect('work', 'fence_token', resource => '{resource}', issuer => '$issuer');
SQL
	return $node->connstr($name);
}

sub play
{
	my ($issuer, $isolation, $depth, $threads, $sequences) = @_;
	my @connections = map { database($issuer) } 1 .. $threads;
	my ($out, $err) = ('', '');
	IPC::Run::run([$program, $issuer, $isolation, $depth, @connections], '>', \$out, '2>', \$err, IPC::Run::timeout(900));
	is($err, '', "issuer $issuer, $isolation, up to $depth steps: the program ran");
	is($out, "sequences $sequences\n", "... $sequences sequences, and all answers are the model's");
	return;
}

play('fencing', 'READ COMMITTED', 6, 2, 43538);
play('external', 'READ COMMITTED', 5, 2, 6893);
foreach my $isolation ('REPEATABLE READ', 'SERIALIZABLE')
{
	play($_, $isolation, 4, 1, 1118) foreach 'fencing', 'external';
}

done_testing();
