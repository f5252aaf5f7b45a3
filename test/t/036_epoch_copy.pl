# 036_epoch_copy: I1 and I5 for copies of a database and of a server. A copy by CREATE DATABASE ... TEMPLATE issues beyond
# its source, whose tokens and leases stand; a rename or another tablespace is no change of identity, and changes
# nothing; a standby promoted beside its primary issues beyond it. What no server can see is shown as it is: a clone
# started beside its source, two standbys promoted from one timeline, a data-only restore into a database that has
# issued in the same epoch, WAL thrown away by pg_resetwal, a fast_forward lost in a failover. Each issues tokens again, until the operator calls
# fast_forward in one of the two; then no token is common, and in that one every lease is over.
#
# Caught here: an identity without the database's OID; one that changes with the name or the place; a jump that also
# ends the leases of the source; a fast_forward that leaves the copy's leases standing.
use strict;
use warnings;

use FencingSession;
use FencingTest;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $epoch = 1 << 40;
my $last_value = 'SELECT last_value FROM fencing.token_seq';
my $record = 'SELECT last_value FROM fencing.origin_seq';

sub draw
{
	my ($node, $database, $count) = @_;
	return split /\n/, $node->safe_psql($database, 'SELECT fencing.next_token() FROM generate_series(1, ' . ($count || 1) . ')');
}

# How many numbers are in both lists.
sub common
{
	my ($left, $right) = @_;
	my %seen = map { $_ => 1 } @$left;
	return scalar grep { $seen{$_} } @$right;
}

sub lease_stands
{
	my ($node, $database, $token, $name) = @_;
	is($node->safe_psql($database, q(SELECT count(*) FROM fencing.lookup('job-1') WHERE expires_at IS NOT NULL)), '1', $name);
	is($node->safe_psql($database, "SELECT fencing.renew('job-1', $token) IS NOT NULL"), 't', '... and can be renewed');
	return;
}

sub lease_is_over
{
	my ($node, $database, $token, $name) = @_;
	is($node->safe_psql($database, q(SELECT count(*) FROM fencing.lookup('job-1') WHERE expires_at IS NULL)), '1', $name);
	is($node->safe_psql($database, "SELECT fencing.renew('job-1', $token) IS NULL"), 't', '... renew says lost');
	is(FencingSession->new($node, dbname => $database)->state_of("SELECT fencing.bind('job-1', $token)"), 'TK001',
		'... the token is stale');
	return;
}

# The operator's step for a copy, by what the copy itself knows (README.md).
sub step_on
{
	my ($node, $database) = @_;
	return $node->safe_psql($database, 'SELECT fencing.fast_forward(last_value + (100::bigint << 40)) FROM fencing.token_seq');
}

my $node = fencing_node('main', allows_streaming => 1);
$node->start;
$node->safe_psql('postgres', 'CREATE DATABASE source');
$node->safe_psql('source', 'CREATE EXTENSION fencing');
my $held = $node->safe_psql('source', q(SELECT token FROM fencing.acquire('job-1', '1 hour', 'worker 1')));
$node->safe_psql('source', q(SELECT fencing.advance('external', 5000)));
my ($drawn) = (draw($node, 'source', 300))[-1];

# ---- a copy from a template

foreach my $strategy ('wal_log', 'file_copy')
{
	my $copy = "copy_$strategy";
	my $option = $node->pg_version < 15 ? '' : "STRATEGY $strategy";
	my $before = $node->safe_psql('source', "$record; $last_value");
	my $source_oid = $node->safe_psql('source', q(SELECT 'fencing.token_seq'::regclass::oid));
	$node->safe_psql('postgres', "CREATE DATABASE $copy TEMPLATE source $option");
	is($node->safe_psql($copy, q(SELECT 'fencing.token_seq'::regclass::oid)), $source_oid,
		"$copy: only the database differs from the source");
	lease_is_over($node, $copy, $held, "$copy: its lease is over before anything is drawn");
	is((draw($node, $copy))[0], 65 * $epoch + 1, '... its first token is 64 epochs and the timeline further');
	is((draw($node, $copy))[0], 65 * $epoch + 2, '... and its next the next');
	is($node->safe_psql($copy, q(SELECT token FROM fencing.acquire('job-1', '1 hour'))), 65 * $epoch + 3,
		'... the resource is free');
	is($node->safe_psql($copy, q(SELECT fencing.advance('external', 5000))), 5000, '... fences of tokens from elsewhere stand');
	lease_stands($node, 'source', $held, 'the source: its lease stands');
	is($node->safe_psql('source', "$record; $last_value"), $before, '... nothing of it has changed');
	is((draw($node, 'source'))[0], ++$drawn, '... its next token is the next');
}
$node->safe_psql('postgres', 'CREATE DATABASE copy_of_copy TEMPLATE copy_wal_log');
is((draw($node, 'copy_of_copy'))[0], 130 * $epoch + 1, 'a copy of a copy that has issued lies beyond both');

# ---- no change of identity

$node->safe_psql('postgres', 'ALTER DATABASE source RENAME TO renamed');
is((draw($node, 'renamed'))[0], ++$drawn, 'a renamed database goes on with the next token');
lease_stands($node, 'renamed', $held, '... its lease stands');
my $place = PostgreSQL::Test::Utils::tempdir();
$node->safe_psql('postgres', "CREATE TABLESPACE elsewhere LOCATION '$place'");
$node->safe_psql('postgres', 'ALTER DATABASE renamed SET TABLESPACE elsewhere');
is((draw($node, 'renamed'))[0], ++$drawn, 'so does one in another tablespace');
$node->safe_psql('postgres', 'ALTER DATABASE renamed SET TABLESPACE pg_default; DROP TABLESPACE elsewhere');
$node->safe_psql('postgres', 'ALTER DATABASE renamed RENAME TO source');
$node->safe_psql('source', $_) foreach 'VACUUM FULL fencing.fence', 'ALTER ROLE ALL IN DATABASE source SET work_mem = 1024';
is((draw($node, 'source'))[0], ++$drawn, 'and one whose table of fences was rewritten');
lease_stands($node, 'source', $held, '... its lease stands');

# ---- a clone and two standbys of the server

$node->backup('base');
my $clone = PostgreSQL::Test::Cluster->new('clone');
$clone->init_from_backup($node, 'base');
my @standbys = map { PostgreSQL::Test::Cluster->new("standby_$_") } 1, 2;
$_->init_from_backup($node, 'base', has_streaming => 1) foreach @standbys;
$_->start foreach $clone, @standbys;
$node->wait_for_catchup($_, 'replay', $node->lsn('insert')) foreach @standbys;
$_->promote foreach @standbys;

is($clone->safe_psql('source', $record), $node->safe_psql('source', $record), 'a clone beside its source: the same identity');
my @of_source = draw($node, 'source', 1000);
my @of_clone = draw($clone, 'source', 500);
cmp_ok(common(\@of_source, \@of_clone), '>', 200, '... both issue the same tokens: no server can see that');
lease_stands($clone, 'source', $held, '... and both have the same lease');
my $highest = (sort { $b <=> $a } @of_source, @of_clone)[0];
cmp_ok(step_on($clone, 'source'), '>', $highest, '... the step of the operator, in the clone');
@of_clone = draw($clone, 'source', 500);
is($of_clone[-1] - $of_clone[0], 499, '... its tokens go on from there');
is(common([ @of_source, draw($node, 'source', 1000) ], \@of_clone), 0, '... no token is common any more');
lease_is_over($clone, 'source', $held, '... in the clone the lease is over');
lease_stands($node, 'source', $held, '... in the source it stands');

# Each is in the epoch after the primary's, so neither can meet it.
my @of_first = draw($standbys[0], 'source', 500);
my @of_second = draw($standbys[1], 'source', 500);
is($of_first[0], $epoch + 1, 'a promoted standby begins the next epoch');
@of_source = (@of_source, draw($node, 'source', 10));
cmp_ok((sort { $b <=> $a } @of_source)[0], '<', $of_first[0], '... beyond its primary, which goes on');
is(common(\@of_first, \@of_second), 500, 'two standbys promoted from one timeline issue the same tokens');
my $both = $standbys[0]->safe_psql('source', q(SELECT token FROM fencing.acquire('job-2', '1 hour')));
is($standbys[1]->safe_psql('source', q(SELECT token FROM fencing.acquire('job-2', '1 hour'))), $both, '... also to holders');
cmp_ok(step_on($standbys[1], 'source'), '>', $both, '... the step of the operator, in one of them');
@of_second = draw($standbys[1], 'source', 500);
is(common([ @of_first, draw($standbys[0], 'source', 500) ], \@of_second), 0, '... no token is common any more');
is($standbys[1]->safe_psql('source', "SELECT fencing.renew('job-2', $both) IS NULL"), 't', '... and its lease is over');
is($standbys[0]->safe_psql('source', "SELECT fencing.renew('job-2', $both) IS NOT NULL"), 't', '... that of the other stands');
$_->stop('immediate') foreach $clone, @standbys;

# ---- data alone, into a database that has issued

sub dump_data
{
	my ($from) = @_;
	my ($out, $err) = ('', '');
	IPC::Run::run(['pg_dump', '-a', '-t', 'fencing.*', '-d', $node->connstr($from)], '>', \$out, '2>', \$err) or die $err;
	return $out;
}

# Both have the record and the fences of the source, but the restored one had issued more.
my $data = dump_data('source');
$node->safe_psql('postgres', 'CREATE DATABASE used');
$node->safe_psql('used', 'CREATE EXTENSION fencing');
my @of_used = draw($node, 'used', 5000);
cmp_ok($of_used[-1], '>', $drawn, 'it has issued more than the source');
$node->safe_psql('used', $data);
@of_used = draw($node, 'used', 100);
is($of_used[0], 65 * $epoch + 1,
	'data restored into a database that has issued: a session that begins now sees the other identity');
lease_is_over($node, 'used', $held, '... and the leases of the source are over');
my $open = FencingSession->new($node, dbname => 'used');
my $last = $open->get('SELECT fencing.next_token()');
$node->safe_psql('used', 'DELETE FROM fencing.fence');
$node->safe_psql('used', $data);
is(common(\@of_used, [ draw($node, 'used', 50) ]), 50, 'restored again: it issues the tokens of that epoch again');
cmp_ok($open->get('SELECT fencing.next_token()'), '<', $last, '... also to a session that was open');
is($open->get("SELECT fencing.fast_forward($last + (1::bigint << 40))"), $last + $epoch,
	'... the step of the operator: past the last token that it is known to have issued');
is($open->get('SELECT fencing.next_token()'), $last + $epoch + 1, '... the open session goes on there');
is((draw($node, 'used'))[0], $last + $epoch + 2, '... and everybody else');
$open->close;

# ---- pg_resetwal

# After a clean stop nothing is lost: the identity, the timeline and the position are as they were.
$drawn = (draw($node, 'source'))[0];
$node->stop('fast');
$node->command_ok([ 'pg_resetwal', $node->data_dir ], 'pg_resetwal after a clean stop');
$node->start;
is((draw($node, 'source'))[0], $drawn + 1, '... the next token is the next');
lease_stands($node, 'source', $held, '... the lease stands');

# After a crash it throws away what was drawn since the last checkpoint.
$node->safe_psql('postgres', 'CHECKPOINT');
my $lost = (draw($node, 'source', 1000))[-1];
crash_server($node);
$node->command_ok([ 'pg_resetwal', '-f', $node->data_dir ], 'pg_resetwal -f after a crash');
$node->start;
my $again = (draw($node, 'source'))[0];
cmp_ok($again, '<=', $lost, '... issues tokens again: neither identity nor timeline has changed');
lease_stands($node, 'source', $held, '... the leases that were on disk stand');
is($node->safe_psql('source', "SELECT fencing.fast_forward(((last_value >> 40) + 1) << 40) FROM fencing.token_seq"), $epoch,
	'... the step of the operator: the next epoch');
is((draw($node, 'source'))[0], $epoch + 1, '... beyond all that was lost');
lease_is_over($node, 'source', $held, '... and every lease is over');

# It can also raise the timeline, which is a later epoch like any other.
my $in_epoch_1 = $node->safe_psql('source', q(SELECT token FROM fencing.acquire('job-1', '1 hour')));
$node->stop('fast');
$node->command_ok([ 'pg_resetwal', '-l', '000000050000000100000001', $node->data_dir ], 'pg_resetwal -l with timeline 5');
$node->start;
is((draw($node, 'source'))[0], 5 * $epoch + 1, '... four timelines further, four epochs');
lease_is_over($node, 'source', $in_epoch_1, '... and the lease is over');

# ---- a fast_forward over several epochs that a failover has lost

# The standby has nothing but the backup; its promotion is one epoch, the fast_forward was fifteen.
my $lost_above = 20 * $epoch;
$node->safe_psql('source', "SELECT fencing.fast_forward($lost_above)");
my @of_lost = draw($node, 'source', 500);
$node->stop('fast');
my $successor = PostgreSQL::Test::Cluster->new('successor');
$successor->init_from_backup($node, 'base');
$successor->set_standby_mode;
$successor->start;
$successor->promote;
is((draw($successor, 'source'))[0], $epoch + 1, 'a fast_forward lost in a failover: the next epoch lies below it');
is($successor->safe_psql('source', "SELECT fencing.fast_forward($lost_above + (1::bigint << 40))"), 21 * $epoch,
	'... the step of the operator: one epoch past the one that was lost');
is(common(\@of_lost, [ draw($successor, 'source', 500) ]), 0, '... no token is common');
cmp_ok((draw($successor, 'source'))[0], '>', $of_lost[-1], '... and the next is greater than all that were issued');

done_testing();
