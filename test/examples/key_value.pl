# docs/examples/key_value with and without its fencing lines: the page, a client that holds an old token in every way, many
# keys at once, and random histories against a model.
#
# Finds: an old token that is let through, also where its row is gone or its transaction is still open; a key that is
# refused because of another; a refusal that leaves part of what it refuses; a token in the functions that is not checked.
#
#     key_value.pl [SEED]
use strict;
use warnings;

use FencingExample;
use FencingPage;
use FencingSession;
use FencingTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed = shift // 1;
srand $seed;

my $node = fencing_node('key_value');
$node->append_conf('postgresql.conf', 'max_connections = 50');
$node->start;
$node->safe_psql('postgres', "CREATE ROLE $_ LOGIN") foreach qw(owner app);

sub client { return FencingSession->new($node, dbname => $_[0], user => 'app'); }

# ---- the page

my $folder = example_copy('key_value');
example_database($node, 'page', "$folder/schema.sql");
my $page = FencingPage->new($node, database => 'page', owner => 'owner', folder => $folder);
my %count = $page->run(slurp_file(tree_root() . '/docs/examples/key_value.md'), sub { is($_[1], '', "key_value.md, $_[0]"); });
is($count{sql}, 4, 'key_value.md: its blocks are run');

is(page_trouble('key_value'), '', 'key_value.md: what it names and shows is there');

# ---- an old token

example_database($node, 'fenced', "$folder/schema.sql");
my ($old, $new) = map { client('fenced') } 1 .. 2;

# A lease that is over as soon as it is granted: nobody waits for it, and its token is good until the next grant.
sub brief_lock { return $_[0]->get("SELECT kv.lock('$_[1]', '1 millisecond', '10 seconds')"); }

my $token = brief_lock($old, 'a');
is($old->state_of("SELECT kv.put('a', 'old', $token)"), '00000', 'a lease that has expired, and is nobody else\'s, is good for a write');
$old->get("BEGIN; SELECT kv.put('a', 'sleeper', $token)");
my $next = brief_lock($new, 'a');
is($old->state_of('COMMIT'), 'TK001', 'who has put and sleeps before COMMIT is refused');
is($new->get(q{SELECT kv.get('a')}), 'old', 'and nothing has changed');
$old->get("BEGIN; SELECT kv.get('a')");
is($old->state_of("SELECT kv.delete('a', $token)"), 'TK001', 'a delete in an open transaction with the old token is refused');
$old->get('ROLLBACK');
is($old->state_of(q{SELECT kv.put('a', 'x', NULL)}), '22004', 'NULL is no token');
is($old->state_of("SELECT kv.put('b', 'x', $next)"), 'TK003', 'nor is the token of another key');
is($old->state_of("DELETE FROM kv.entry WHERE key = 'a'"), 'TK002', 'the table without the functions');
is($new->get("SELECT kv.delete('a', $next)"), 't', 'the new holder deletes');
is($new->get("SELECT kv.delete('a', $next)"), 'f', 'once');

# ---- many keys

$new->get(q{CREATE TEMP TABLE held AS SELECT 'many ' || n AS key, t AS token FROM generate_series(1, 1000) AS n, kv.lock('many ' || n, '1 ms') AS t});
my $all = q{SELECT jsonb_agg(jsonb_build_object('key', key, 'value', '%s ' || key, 'token', token)) FROM held};
sub put_all { my ($value) = @_; return 'SELECT kv.put_all((' . sprintf($all, $value) . '))'; }
is($new->get(put_all('first')), '1000', 'a thousand keys at once');
my $lost = brief_lock($old, 'many 500');
is($new->state_of(put_all('second')), 'TK001', 'one of them has gone to another: refused');
is($old->get(q{SELECT count(*) FROM kv.entry WHERE value LIKE 'first %'}), '1000', 'as a whole');
is($new->get(q{DELETE FROM held WHERE key = 'many 500'; } . put_all('second')), '999', 'the others are still good');
is($old->get("SELECT kv.put('many 500', 'mine', $lost); SELECT kv.get('many 500')"), "\nmine", 'and so is this one with its new holder');

# ---- random histories against a model: what a client may do with a token that it was once given

my @clients = ($old, $new, map { client('fenced') } 1 .. 2);
my @keys = map { "random $_" } 1 .. 25;
my (%value, %granted, @differences, %done);
foreach my $step (1 .. 1000)
{
	my $client = $clients[rand @clients];
	my $key = $keys[rand @keys];
	my $granted = $granted{$key} ||= [];
	my $what = rand() < 0.25 || !@$granted ? 'lock' : (qw(put delete get))[rand 3];
	my $presented = @$granted ? $granted->[-1 - int rand(@$granted > 3 ? 3 : scalar @$granted)] : 0;
	my $good = @$granted && $presented == $granted->[-1];
	my ($got, $expected);
	if ($what eq 'lock')
	{
		push @$granted, $got = brief_lock($client, $key);
		$expected = $got > (@$granted > 1 ? $granted->[-2] : 0) ? $got : 'a greater one';
	}
	elsif ($what eq 'put')
	{
		$got = $client->state_of("SELECT kv.put('$key', 'value $step', $presented)");
		$expected = $good ? '00000' : 'TK001';
		$value{$key} = "value $step" if $good;
	}
	elsif ($what eq 'delete')
	{
		$got = $client->ask("SELECT kv.delete('$key', $presented)") || $client->sqlstate;
		$expected = !$good ? 'TK001' : delete $value{$key} ? 't' : 'f';
	}
	else
	{
		$got = $client->get("SELECT kv.get('$key')");
		$expected = $value{$key} // '';
	}
	$done{ $what . ($what =~ /^(put|delete)$/ && !$good ? ' refused' : '') }++;
	push @differences, "step $step: $what $key with $presented: $got instead of $expected" if $got ne $expected;
}
is("@differences", '', "1000 steps (seed $seed) on 25 keys: as the model says");
cmp_ok($done{$_} // 0, '>=', 20, "of these some were: $_") foreach 'lock', 'put', 'put refused', 'delete', 'delete refused', 'get';
is($old->get(q{SELECT key, value FROM kv.entry WHERE key LIKE 'random %' ORDER BY key COLLATE "C"}),
	join("\n", map { "$_|$value{$_}" } sort keys %value), 'and what is left is what the model has');

# ---- a row fence alone: it goes with the row

my $owner = example_database($node, 'row_fence', "$folder/schema.sql");
$owner->get(q{SELECT fencing.protect('kv.entry', 'fence_token')});
($old, $new) = map { client('row_fence') } 1 .. 2;
$old->get(q{INSERT INTO kv.entry VALUES ('a', 'old', 1)});
$new->get(q{BEGIN; SET LOCAL fencing.token = 2; DELETE FROM kv.entry WHERE key = 'a'; COMMIT});
is($old->state_of(q{INSERT INTO kv.entry VALUES ('a', 'old', 1)}), '00000', 'row fence: the old token brings the key back, as the page says');

# ---- without the fencing lines

my $plain = example_copy('key_value', 'fencing');
example_database($node, 'plain', "$plain/schema.sql");
($old, $new) = map { client('plain') } 1 .. 2;
$token = brief_lock($old, 'a');
$old->get("SELECT kv.put('a', 'old', $token)");
$next = brief_lock($new, 'a');
is($new->get("SELECT kv.delete('a', $next)"), 't', 'plain: the new holder has deleted the key');
is($old->state_of("SELECT kv.put('a', 'old', $token)"), '00000', 'plain: nobody refuses the old one');
is($new->get(q{SELECT kv.get('a')}), 'old', 'plain: the key is back');

done_testing();
