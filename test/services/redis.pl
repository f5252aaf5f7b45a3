# docs/lock-services/redis_shard.py against a Redis that keeps every write, which is killed while the first worker
# sleeps; and against two that do not: without a log, and a replica that is behind when it takes over.
#
# Finds: a late write that passes; a program that would pass without its line of fencing. Shows what becomes of the
# counter when writes are lost: new holders are refused until it has come up to the fence, and then there are two
# holders with one number; and the way out.
use strict;
use warnings;

use FencingServices;
use FencingSession;
use FencingShard;
use PostgreSQL::Test::Utils;
use Test::More;

my $folder = PostgreSQL::Test::Utils::tempdir();
my $shard = FencingShard->new('redis_shard');
my @durable = ('--save', '', '--appendonly', 'yes', '--appendfsync', 'always');

# A worker that takes the lock, works and is done.
sub one_after
{
	my ($service, $number, $result) = @_;
	my $worker = $shard->worker($service->hosts, $number, $result, 30);
	FencingShard::line_of($worker) =~ /^working on/ or return 'does not work';
	return FencingShard::finish($worker, $result);
}

my $redis = FencingServices::Redis->new($folder, 'durable', @durable);
my $hosts = sub { return $redis->hosts };
my @tokens = $shard->late_writes($hosts, $hosts, sub { $redis->crash });
is("@tokens", '1 2', 'the token is the counter');
foreach my $round (3 .. 5)
{
	is(one_after($redis, 1, "round $round"), 'done', "round $round: a worker");
	$redis->crash;
	is($redis->ask('GET', 'token:shard:1'), $round, 'and a kill -9: the counter stands');
}

# Debian's own settings: a snapshot now and then, no log.
my @snapshots = ('--save', '3600 1 300 100 60 10000', '--appendonly', 'no');
my $forgetful = FencingServices::Redis->new($folder, 'forgetful', @snapshots);
is(one_after($forgetful, 5, "holder $_"), 'done', "without a log: holder $_") foreach 1, 2;
my $sleeper = $shard->worker($forgetful->hosts, 5, 'sleeper', 30);
is(FencingShard::line_of($sleeper), 'working on holder 2', 'the third one works');
is($shard->fence_of(5), 3, 'with the token 3');
FencingShard::suspend($sleeper);
$forgetful->crash;
is($forgetful->ask('GET', 'token:shard:5'), '', 'it sleeps, Redis is killed, and the counter is gone');
foreach my $token (1, 2)
{
	my $worker = $shard->worker($forgetful->hosts, 5, 'late', 30);
	is(FencingShard::line_of($worker), 'stale', "the next holder gets the token $token and is refused: safe, and stuck");
}
is($shard->fence_of(5), 3, 'the fence has not gone down');
is(one_after($forgetful, 5, 'namesake'), 'done', 'the one after has the number of the sleeper, and passes');
is($shard->state_of(5), 'namesake', 'it has written');
FencingShard::wake($sleeper);
is(FencingShard::finish($sleeper, 'by the sleeper'), 'done', 'so does the sleeper: nobody can tell them apart');
is($shard->state_of(5), 'by the sleeper', 'its late write overwrites: a counter that goes back is not safe');

# The way out: the counter above all that it can have given out, before anybody is let in.
$forgetful->crash;
$forgetful->ask('SET', 'token:shard:5', $shard->fence_of(5) + 1000000);
is(one_after($forgetful, 5, 'the next'), 'done', 'with the counter set above the fence the next holder works');
is($shard->token_of(5), 1000004, 'with a greater token');

# forget() is another way in, and the row's own token still stands.
$forgetful->crash;
is($shard->node->safe_psql('postgres', q(SELECT fencing.forget('shard:5'))), 't', 'the owner drops the fence');
my $worker = $shard->worker($forgetful->hosts, 5, 'lower', 30);
is(FencingShard::line_of($worker), 'working on the next', 'the next holder begins with the token 1');
is(FencingShard::finish($worker, 'by the lower'), 'stale', 'and cannot write: the row has a greater one');
is($shard->state_of(5), 'the next', 'nothing has changed');

# A replica is cut off, the server that has answered dies, and the replica takes over.
my ($port) = $redis->hosts =~ /:(\d+)/;
my $replica = FencingServices::Redis->new($folder, 'replica', @durable, '--replicaof', '127.0.0.1', $port);
is(one_after($redis, 6, 'before'), 'done', 'with a replica: a worker');
my $has_it = sub { $replica->ask('GET', 'token:shard:6') eq '1' && $replica->ask('EXISTS', 'lock:shard:6') eq '0' };
ok(until_true($has_it, 60), 'whose number the replica has');
kill 'STOP', $replica->{process};
is($redis->ask('CLIENT', 'KILL', 'TYPE', 'replica'), 1, 'the replica is cut off');
is(one_after($redis, 6, 'after'), 'done', 'the next worker');
is($shard->token_of(6), 2, 'has the token 2');
FencingServices::end_process($redis->{process});
kill 'CONT', $replica->{process};
$replica->ask('REPLICAOF', 'NO', 'ONE');
is($replica->ask('GET', 'token:shard:6'), 1, 'the server is killed, the replica takes over: the counter has gone back');
is(one_after($replica, 6, 'again'), 'done', 'the next worker');
is($shard->token_of(6), 2, 'has the token 2 as well');

done_testing();
