# docs/sharding/foreign.sql: a partitioned table, whose partitions are tables on shards which protect them. What of the
# extension reaches through postgres_fdw, and what does not.
#
# Finds: a stale write through a foreign partition that is accepted, at the statement or at COMMIT; a setting that is
# taken for a token although the shard cannot see it.
use strict;
use warnings;

use FencingSession;
use FencingShards;
use PostgreSQL::Test::Utils;
use Test::More;

my @shards = map { start_node("shard$_") } 0 .. 1;
my $node = start_node('main');
run_file($_, 'docs/sharding/foreign_shard.sql') foreach @shards;
run_file($node, 'docs/sharding/foreign.sql', map {
	("host$_" => $shards[$_]->host, "port$_" => $shards[$_]->port, "dbname$_" => 'postgres') } 0 .. 1);
$node->safe_psql('postgres', 'CREATE EXTENSION fencing');

my $session = FencingSession->new($node);
my ($eu, $us) = map { FencingSession->new($_) } @shards;

# The lease is taken on the shard itself: postgres_fdw calls no functions.
sub take
{
	my ($shard, $region, $id) = @_;
	return $shard->get("SELECT token FROM fencing.acquire('invoice:$region:$id', '1 hour', steal => 'always')");
}

my $token = take($eu, 'eu', 1);
$session->get("INSERT INTO invoice VALUES ('eu', 1, 10, $token)");
my $other = take($us, 'us', 1);
$session->get("INSERT INTO invoice VALUES ('us', 1, 10, $other)");
is($eu->get('TABLE invoice'), "eu|1|10|$token", 'a row with its token in the column reaches its shard');
is($us->get('TABLE invoice'), "us|1|10|$other", '... and another the other');
is($session->state_of("UPDATE invoice SET amount = 11, fence_token = $token WHERE region = 'eu' AND id = 1"), '00000',
	'an UPDATE that names the token passes');
is($session->state_of("UPDATE invoice SET amount = 12 WHERE region = 'eu' AND id = 1"), 'TK002',
	'one that does not is refused: it is sent as it stands');
is($session->state_of("UPDATE invoice SET amount = 12 WHERE region = 'eu' AND id = (random() * 0)::int + 1"), 'TK002',
	'... also where it is sent row by row: the token that stands there does not count');
is($session->state_of("DELETE FROM invoice WHERE region = 'eu' AND id = 1"), 'TK002',
	'a DELETE has no column to carry a token in');
is($session->state_of('TRUNCATE invoice'), 'TK002', 'nor has TRUNCATE');
is($session->state_of("BEGIN; SET LOCAL fencing.token = $token; UPDATE invoice SET amount = 12 WHERE region = 'eu'"),
	'TK002', 'fencing.token is not carried over to the session on the shard');
$session->get('ROLLBACK');

my $late = take($eu, 'eu', 1);
is($session->state_of("UPDATE invoice SET amount = 99, fence_token = $token WHERE region = 'eu' AND id = 1"), 'TK001',
	'a stale UPDATE is refused by the shard');
like($session->errors, qr/Presented token $token, current token $late/, '... with its DETAIL');
is($session->state_of("INSERT INTO invoice VALUES ('eu', 1, 99, $token) ON CONFLICT DO NOTHING"), 'TK001',
	'... a stale INSERT too');
is($session->state_of(qq(COPY invoice FROM PROGRAM 'printf "eu\\t1\\t99\\t$token\\n"')), 'TK001', '... and COPY');
# What postgres_fdw cannot send as one statement it sends row by row.
my $row_by_row = q(region = 'eu' AND id = (random() * 0)::int + 1);
is($session->state_of("UPDATE invoice SET amount = 99, fence_token = $token WHERE $row_by_row"),
	'TK001', '... and an UPDATE that is sent row by row');
is($eu->get('TABLE invoice'), "eu|1|11|$token", '... and nothing has changed');

# The sleeper that wrote before the grant: the shard's seal, when its side commits.
$session->get("BEGIN; UPDATE invoice SET amount = 99, fence_token = $late WHERE region = 'eu' AND id = 1");
my $newest = take($eu, 'eu', 1);
is($session->state_of('COMMIT'), 'TK001', 'a COMMIT after a take-over is refused');
is($eu->get('TABLE invoice'), "eu|1|11|$token", '... and nothing has changed');

# Two shards in one transaction: the refusal of one does not reach what has committed on the other.
$session->get("BEGIN; UPDATE invoice SET amount = 20, fence_token = $newest WHERE region = 'eu' AND id = 1");
$session->get("UPDATE invoice SET amount = 20, fence_token = $other WHERE region = 'us' AND id = 1");
take($us, 'us', 1);
is($session->state_of('COMMIT'), 'TK001', 'a COMMIT over two shards is refused by the one that has seen a take-over');
is($us->get('SELECT amount FROM invoice'), 10, '... and nothing has changed there');
note('the other shard has ' . ($eu->get('SELECT amount FROM invoice') == 20 ? 'committed' : 'not committed'));

# What fencing is for.
$eu->get(q(SELECT fencing.unprotect('invoice')));
is($session->state_of("UPDATE invoice SET amount = 99, fence_token = $token WHERE region = 'eu' AND id = 1"), '00000',
	'without the fence on the shard a stale UPDATE passes');

$_->close foreach $session, $eu, $us;
done_testing();
