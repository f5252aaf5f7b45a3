# docs/sharding/router.sql: tokens and fences of a resource live on the shard where its row lives, and a client of the
# router need not know which that is.
#
# Finds: a write that reaches another shard than its resource's lease; a refusal that loses its SQLSTATE or DETAIL on
# the way; a grant that is not committed when the router answers; a stale write that is accepted.
use strict;
use warnings;

use FencingSession;
use FencingShards;
use PostgreSQL::Test::Utils;
use Test::More;

my @shards = map { start_node("shard$_") } 0 .. 1;
my $router = start_node('router');
run_file($shards[$_], 'docs/sharding/shard.sql', shard => $_, shards => 2) foreach 0 .. 1;
run_file($router, 'docs/sharding/router.sql', map { +"shard$_" => $shards[$_]->connstr('postgres') } 0 .. 1);

my ($first, $second) = map { FencingSession->new($router, user => 'worker') } 1 .. 2;
my @direct = map { FencingSession->new($_) } @shards;
is($router->safe_psql('postgres', q(SELECT count(*) FROM pg_extension WHERE extname = 'fencing')), 0,
	'the router has no fence of its own');

# Some resources of each shard.
my @resources = map { "task-$_" } 1 .. 12;
my %shard_of = map { $_ => $first->get("SELECT hashtext('$_') & 1") } @resources;
my %count;
$count{$_}++ foreach values %shard_of;
is(join(' ', sort keys %count), '0 1', 'the resources lie on both shards');
foreach my $resource (@resources)
{
	my ($here, $there) = @direct[$shard_of{$resource}, 1 - $shard_of{$resource}];
	my $token = $first->get("SELECT token FROM fencing.acquire('$resource', holder => 'first')");
	is($here->get("SELECT token, holder FROM fencing.lookup('$resource')"), "$token|first",
		"$resource: the lease is on its shard");
	is($there->get("SELECT token FROM fencing.lookup('$resource')"), '', '... and not on the other');
	$first->get("SELECT put('$resource', $token, 'of first')");
	is($here->get("SELECT result, fence_token FROM task WHERE id = '$resource'"), "of first|$token",
		'... and so is the row');
	is($there->get("SELECT count(*) FROM task WHERE id = '$resource'"), 0, '... and nowhere else');
}

# The first holder sleeps past a take-over.
foreach my $resource (@resources[0 .. 3])
{
	my $old = $first->get("SELECT token FROM fencing.lookup('$resource')");
	is($second->get("SELECT count(*) FROM fencing.acquire('$resource')"), 0,
		"$resource: a lease that stands is not given to a second holder");
	my $new = $second->get("SELECT token FROM fencing.acquire('$resource', holder => 'second', steal => 'always')");
	cmp_ok($new, '>', $old, '... a later grant has the greater token');
	is($first->state_of("SELECT put('$resource', $old, 'late')"), 'TK001',
		'... a late write is refused, before the successor writes');
	like($first->errors, qr/Presented token $old, current token $new, granted to "second"/,
		'... and the router passes on against what');
	like($first->errors, qr/HINT:.*do not retry/, '... and the hint');
	is($first->get("SELECT fencing.renew('$resource', $old)"), '', '... renew says that the lease is lost');
	is($first->get("SELECT fencing.release('$resource', $old)"), 'f', '... release ends nothing');
	$second->get("SELECT put('$resource', $new, 'of second')");
	is($second->get("SELECT get('$resource')"), 'of second', '... the successor writes');
	is($first->state_of("SELECT put('$resource', $old, 'late')"), 'TK001', '... and a late write is refused after it');
	is($second->get("SELECT get('$resource')"), 'of second', '... and has changed nothing');
}

# A transaction of the router is none of the shard: what a call has done stands.
my $resource = $resources[0];
$second->get('BEGIN');
my $kept = $second->get("SELECT token FROM fencing.acquire('$resource', holder => 'third', steal => 'always')");
is($direct[$shard_of{$resource}]->get("SELECT token FROM fencing.lookup('$resource')"), $kept,
	'a grant is committed when the router answers');
$second->get('ROLLBACK');
is($second->get("SELECT token FROM fencing.lookup('$resource')"), $kept, '... and outlives a ROLLBACK there');

# Who goes around the router.
my $stray = $direct[1 - $shard_of{$resource}];
is($stray->state_of("SELECT put('$resource', 1000, 'stray')"), 'TK003', 'a token of one shard is nobody\'s on another');
my $wrong = $stray->get("SELECT token FROM fencing.acquire('$resource')");
is($stray->state_of("SELECT put('$resource', $wrong, 'stray')"), '23514',
	'a lease that was taken on the wrong shard has no row to write there');

# A resource moves to the other shard: its row comes with the token of the old one, whose sequence is ahead.
$resource = $resources[1];
my ($from, $to) = @direct[$shard_of{$resource}, 1 - $shard_of{$resource}];
# A holder sleeps meanwhile, with a token that no row has.
$from->get('SELECT fencing.fast_forward(100000)');
my $asleep = $from->get("SELECT token FROM fencing.acquire('$resource', steal => 'always')");
my $last = $from->get("SELECT token FROM fencing.acquire('$resource', steal => 'always')");
is($from->state_of("SELECT put('$resource', $asleep, 'late')"), 'TK001', 'moving: the old shard refuses who held it');
$from->get("SELECT put('$resource', $last, 'moving')");
$to->get("ALTER TABLE task DROP CONSTRAINT belongs_here; SET fencing.enforcement = off");
$to->get("INSERT INTO task VALUES ('$resource', 'moving', $last)");
$to->get('RESET fencing.enforcement');
my $low = $to->get("SELECT token FROM fencing.acquire('$resource')");
is($to->state_of("SELECT put('$resource', $low, 'moved')"), 'TK001',
	'moved without fast_forward: the new shard issues tokens below that of the row');
$to->get("SELECT fencing.fast_forward($last)");
my $high = $to->get("SELECT token FROM fencing.acquire('$resource', steal => 'always')");
cmp_ok($high, '>', $last, '... and after fast_forward above it');
is($to->state_of("SELECT put('$resource', $asleep, 'late')"), 'TK001', '... so who held it on the old shard is refused here, too');
is($to->state_of("SELECT put('$resource', $high, 'moved')"), '00000', '... and the new holder writes');

# What fencing is for: without the line that binds, the late write is accepted.
foreach my $node (@shards)
{
	my $body = $node->safe_psql('postgres', q(SELECT pg_get_functiondef('put'::regproc)));
	$body =~ s/^\s*PERFORM fencing\.bind.*\n//m or die "put() does not bind\n";
	$node->safe_psql('postgres', "SELECT fencing.unprotect('task'); $body");
}
$resource = $resources[4];
my $old = $first->get("SELECT token FROM fencing.lookup('$resource')");
$second->get("SELECT token FROM fencing.acquire('$resource', steal => 'always')");
is($first->state_of("SELECT put('$resource', $old, 'late')"), '00000', 'without fence and bind a late write passes');

$_->close foreach $first, $second, @direct;
done_testing();
