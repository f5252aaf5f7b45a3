# PostgreSQL's own recipe: an advisory lock, a number of a sequence, and WHERE fence_token <= of it in each UPDATE. The
# number is issued again after a crash, and the late write of the first one who has it passes. With next_token and a
# guard in its place it does not.
#
# Finds: a token of next_token that comes again after kill -9 of the whole server; a late write that passes.
use strict;
use warnings;

use FencingSession;
use FencingTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fencing_node('advisory');
# Nothing else happens to flush at the wrong moment; with the server's own settings it takes some seconds more or less.
$node->append_conf('postgresql.conf', own_flush_conf());
$node->start;
$node->safe_psql('postgres', <<'SQL');
CREATE EXTENSION fencing;
CREATE SEQUENCE bare;
CREATE SEQUENCE hurried;
CREATE SEQUENCE cached CACHE 10;
CREATE UNLOGGED SEQUENCE unlogged;
CREATE TABLE report (name text PRIMARY KEY, content text, fence_token bigint NOT NULL DEFAULT 0);
INSERT INTO report (name) VALUES ('bare'), ('hurried'), ('unlogged');
CREATE TABLE guarded (LIKE report INCLUDING ALL);
INSERT INTO guarded VALUES ('next_token', NULL, 0);
SELECT fencing.protect('guarded', 'fence_token');
SQL

# A worker has the lock, and its number.
sub lock_and_draw
{
	my ($draw, $settings) = @_;
	my $worker = FencingSession->new($node, options => $settings);
	$worker->get('SELECT pg_advisory_lock(7)');
	return ($worker, $worker->get("SELECT $draw"));
}

# before_and_after($draw, $settings, $ahead): the number that one worker has before a crash of the server, and the one
# that the next has after it. With $ahead somebody else draws before it, in a transaction that is open.
sub before_and_after
{
	my ($draw, $settings, $ahead) = @_;
	my $other = FencingSession->new($node);
	$other->get('BEGIN');
	$other->get("SELECT $draw") if $ahead;
	my ($first, $before) = lock_and_draw($draw, $settings);
	crash_server($node);
	$node->start;
	my ($second, $after) = lock_and_draw($draw, $settings);
	$second->close;
	return ($before, $after);
}

sub write_checked
{
	my ($name, $content, $token) = @_;
	return $node->safe_psql('postgres', "UPDATE report SET content = '$content', fence_token = $token
		WHERE name = '$name' AND fence_token <= $token RETURNING content");
}

my %case = (
	bare => [ q(nextval('bare')), undef, 1, 'a bare sequence' ],
	hurried => [ q(nextval('hurried')), '-c synchronous_commit=off', 0, 'synchronous_commit = off' ],
	unlogged => [ q(nextval('unlogged')), undef, 0, 'an unlogged sequence' ]);
foreach my $name (sort keys %case)
{
	my ($draw, $settings, $ahead, $what) = @{ $case{$name} };
	my ($before, $after) = before_and_after($draw, $settings, $ahead);
	cmp_ok($after, '<=', $before, "$what: the worker before the crash has seen $before, the next one has $after");
	# Others come and go, until the number of the first one is there again.
	$after = $node->safe_psql('postgres', "SELECT $draw") while $after < $before;
	is($after, $before, 'two workers have one number');
	is(write_checked($name, 'by the second', $after), 'by the second', 'the second one writes');
	is(write_checked($name, 'by the first', $before), 'by the first',
		'the late write of the first one overwrites it: the check is met');
}

# The same as with the bare sequence, and the guard in place of the check.
my ($before, $after) = before_and_after('fencing.next_token()', undef, 1);
cmp_ok($after, '>', $before, "next_token: the worker before the crash has seen $before, the next one has $after");
my $write = "UPDATE guarded SET content = '%s', fence_token = %s WHERE name = 'next_token'";
$node->safe_psql('postgres', sprintf $write, 'by the second', $after);
my (undef, undef, $errors) =
  $node->psql('postgres', "\\set VERBOSITY sqlstate\n" . sprintf $write, 'by the first', $before);
like($errors, qr/TK001/, 'the late write of the first one is refused');
is($node->safe_psql('postgres', 'SELECT content FROM guarded'), 'by the second', 'the result of the second one stands');

# No crash is needed with CACHE: each session has ten numbers of its own.
my $one = FencingSession->new($node);
my $other = FencingSession->new($node);
my @grants;
foreach my $worker ($one, $other, $one)
{
	$worker->get('SELECT pg_advisory_lock(7)');
	push @grants, $worker->get(q(SELECT nextval('cached')));
	$worker->get('SELECT pg_advisory_unlock(7)');
}
cmp_ok($grants[2], '<', $grants[1], "CACHE: who has the lock last has a lower number than the one before (@grants)");

done_testing();
