# 052_verify: fencing.verify() where one server of the regression does not show it: it says nothing on a standby of a
# sound primary, and the same there as on the primary otherwise; a foreign table whose TRUNCATE the server cannot guard
# is named, and one that it can is not; a seal that is prepared is named also after a crash.
#
# Caught here: a false alarm, or an error, on a standby; a prepared transaction that is known by its backend only.
use strict;
use warnings;

use FencingSession;
use FencingTest;
use PostgreSQL::Test::Cluster;
use Test::More;

my $primary = fencing_node('primary', allows_streaming => 1);
$primary->append_conf('postgresql.conf', "max_prepared_transactions = 2\n");
$primary->start;
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;

$primary->safe_psql('postgres', <<'SQL');
CREATE EXTENSION fencing;
CREATE TABLE account (id int, region text, fence_token bigint) PARTITION BY LIST (region);
CREATE TABLE account_eu PARTITION OF account FOR VALUES IN ('eu');
SELECT fencing.protect('account', 'fence_token', 'account:{id}');
SELECT fencing.acquire('account:1', '1 hour');
SQL
my $verify = 'SELECT severity, object, problem FROM fencing.verify()';

sub on_both
{
	my ($claim, $expected) = @_;
	like($primary->safe_psql('postgres', $verify), $expected, $claim);
	$primary->wait_for_catchup($standby);
	like($standby->safe_psql('postgres', $verify), $expected, '... also on the standby');
	return;
}

on_both('nothing is wrong', qr/^$/);
is($standby->safe_psql('postgres', 'SELECT resource, state FROM fencing.leases'), 'account:1|held', 'leases are there');
is($standby->safe_psql('postgres', 'SELECT count(*) FROM fencing.guards'), 2, '... and guards');

$primary->safe_psql('postgres', 'ALTER TABLE account_eu DISABLE TRIGGER zz_fencing_guard');
on_both('a clone is disabled', qr/^error\|public\.account_eu\|trigger zz_fencing_guard is disabled$/);
$primary->safe_psql('postgres', q(SELECT fencing.protect('account', 'fence_token', 'account:{id}')));

# A prepared seal, from before a crash.
my $session = FencingSession->new($primary);
my $token = $session->get(q(SELECT token FROM fencing.acquire('job-1')));
$session->get($_) foreach 'BEGIN', "SELECT fencing.bind('job-1', $token)", q(PREPARE TRANSACTION 'job-1');
my $held = qr/^warning\|prepared transaction 'job-1'\|holds a seal since .*$/;
like($primary->safe_psql('postgres', $verify), $held, 'a prepared seal');
crash_server($primary);
$primary->start;
like($primary->safe_psql('postgres', $verify), $held, '... and after a crash');
is($primary->safe_psql('template1', 'CREATE EXTENSION fencing; SELECT count(*) FROM fencing.verify(); DROP EXTENSION fencing'), 0,
	'... is nothing in another database');
$primary->safe_psql('postgres', q(ROLLBACK PREPARED 'job-1'));
on_both('nothing is wrong any more', qr/^$/);

# A foreign partition. Its rows are guarded everywhere, its TRUNCATE only by a server that has such triggers.
my ($major) = $primary->safe_psql('postgres', 'SHOW server_version') =~ /^(\d+)/;
$primary->psql('postgres', <<'SQL', on_error_die => 1);
CREATE FOREIGN DATA WRAPPER nothing;
CREATE SERVER elsewhere FOREIGN DATA WRAPPER nothing;
CREATE FOREIGN TABLE account_us PARTITION OF account FOR VALUES IN ('us') SERVER elsewhere;
SET client_min_messages = error;
SELECT fencing.protect('account', 'fence_token', 'account:{id}');
SQL
on_both('a foreign partition', $major >= 16 ? qr/^$/ : qr/^warning\|public\.account_us\|TRUNCATE of a foreign table cannot be guarded on this server$/);

done_testing();
