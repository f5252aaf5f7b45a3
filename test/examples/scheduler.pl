# docs/examples/scheduler with and without its fencing lines: a queue of pg-boss, and real workers, one of which sleeps past
# its job's expiry and wakes up when another one has done the job. The programs have no rights but those of schema.sql.
#
# Finds: a zombie's result over its successor's; a worker that forgets its token and is let through; a zombie whose queue
# hands the job out again and whose successor's result is lost by that; a worker that cannot take over at all, or reads before it is granted
# its lease.
#
#     scheduler.pl NODE-MODULES
use strict;
use warnings;

use FencingExample;
use FencingSession;
use FencingTest;
use PostgreSQL::Test::Utils;
use Test::More;

my ($modules) = @ARGV;
my $holder = tree_root() . '/test/examples/hold_worker.js';

my $node = fencing_node('scheduler');
$node->start;
$node->safe_psql('postgres', "CREATE ROLE $_ LOGIN") foreach qw(owner app);

my $right = q{SELECT customer, count(*), sum(amount) FROM purchase GROUP BY customer};
my $written = q{SELECT customer, purchases, total FROM statement};

my ($folder, $database, $owner);

# The environment of a program whose jobs expire after so many seconds.
sub program
{
	my ($seconds, @command) = @_;
	return start_program(
		{ PGHOST => $node->host, PGPORT => $node->port, PGUSER => 'app', PGDATABASE => $database, EXPIRE_SECONDS => $seconds },
		'node', @command);
}

sub begin
{
	($database, my @marks) = @_;
	$folder = example_copy('scheduler', @marks);
	symlink $modules, "$folder/node_modules" or die "could not link $modules: $!";
	$owner = example_database($node, $database, "$folder/schema.sql");
	return;
}

sub statement_of { return $owner->get("SELECT purchases, total FROM statement WHERE customer = $_[0]"); }
sub sums_of { return $owner->get("SELECT count(*), sum(amount) FROM purchase WHERE customer = $_[0]"); }
sub shown { return $_[0] =~ /: (\d+) purchases, (\S+)$/ ? "$1|$2" : "'$_[0]'"; }

# A zombie: it has read the purchases of the customer, sleeps past the job's expiry, and another worker has the job, and
# reads one purchase more. Returns both, and the queue's keeper.
sub zombie_and_successor
{
	my ($customer) = @_;
	my $keeper = program(2, "$folder/schedule.js", $customer);
	is($keeper->line, 'queued 1', "$database: a job for customer $customer is queued");
	my $zombie = program(2, $holder, $folder);
	is(shown($zombie->line), sums_of($customer), "$database: a worker reads the purchases of customer $customer");
	$zombie->stop;
	$owner->get("INSERT INTO purchase (customer, amount) VALUES ($customer, 1000.00)");
	# Its own lease is a long one: on a busy machine the test is not fast.
	my $successor = program(60, $holder, $folder);
	is(shown($successor->line), sums_of($customer), "$database: it sleeps; the queue gives the job to another, who reads one more");
	return ($zombie, $successor, $keeper);
}

sub finish
{
	my ($program) = @_;
	$program->tell('finished');
	return $program->line;
}

is(page_trouble('scheduler', 'sql', 'js'), '', 'scheduler.md: what it names and shows is there');

# ---- with its fencing lines

begin('fenced');
my $keeper = program(60, "$folder/schedule.js", 1 .. 60);
is($keeper->line, 'queued 60', 'a job for each of 60 customers is queued');
my @workers = map { program(60, "$folder/worker.js") } 1 .. 2;
ok(until_true(sub { $owner->get('SELECT count(*) FROM statement') eq '60' }, 120, 0.1), 'two workers write a statement for each');
is($owner->get("($written EXCEPT $right) UNION ALL ($right EXCEPT $written)"), '', 'and each is right');
$_->end foreach @workers, $keeper;

(my $zombie, my $successor, $keeper) = zombie_and_successor(7);
is(finish($successor), 'statement 7: written', 'fenced: the successor writes');
my $row = statement_of(7);
is($row, sums_of(7), 'fenced: and its statement is right');
$zombie->wake;
like(finish($zombie), qr/^statement 7: TK001 stale fencing token for resource "statement:7"/, 'fenced: the zombie wakes up and is refused');
is(statement_of(7), $row, 'fenced: the statement stands');
$_->end foreach $zombie, $successor, $keeper;

# The zombie wakes up first; the queue takes its failure for the successor's.
($zombie, $successor, $keeper) = zombie_and_successor(8);
my $before = statement_of(8);
$zombie->wake;
like(finish($zombie), qr/^statement 8: TK001/, 'fenced: a zombie that wakes up before its successor writes is refused as well');
is(statement_of(8), $before, 'fenced: and has written nothing');
$zombie->end;
is(finish($successor), 'statement 8: written', 'fenced: its successor is not disturbed');
is(statement_of(8), sums_of(8), 'fenced: and its statement is right');
$_->end foreach $successor, $keeper;

# A worker dies: its lease ends as its job does.
$keeper = program(2, "$folder/schedule.js", 9);
$zombie = program(2, $holder, $folder);
like($zombie->line, qr/^rendering 9:/, 'fenced: a worker of customer 9');
$zombie->end;
$owner->get('INSERT INTO purchase (customer, amount) VALUES (9, 1000.00)');
$successor = program(60, $holder, $folder);
is(shown($successor->line), sums_of(9), 'fenced: is killed, and another takes over');
is(finish($successor), 'statement 9: written', 'fenced: and writes');
is(statement_of(9), sums_of(9), 'fenced: what is right');
$_->end foreach $successor, $keeper;

# A worker that has to wait for its lease reads what there is after the grant.
my $token = $owner->get(q{SELECT token FROM fencing.acquire('statement:11', '1 hour')});
$keeper = program(60, "$folder/schedule.js", 11);
{
	local $ENV{PGAPPNAME} = 'waits for its lease';
	$successor = program(60, $holder, $folder);
}
my $superuser = FencingSession->new($node);    # who sees what others do
my $waits = q{SELECT count(*) FROM pg_stat_activity WHERE application_name = 'waits for its lease' AND query LIKE '%fencing.acquire%'};
ok(until_true(sub { $superuser->get($waits) eq '1' }, 60, 0.05), 'fenced: a worker of customer 11 waits for its lease');
$owner->get('INSERT INTO purchase (customer, amount) VALUES (11, 1000.00)');
$owner->get("SELECT fencing.release('statement:11', $token)");
is(shown($successor->line), sums_of(11), 'fenced: and reads what has come while it waited');
$_->end foreach $successor, $keeper;

# ---- a worker that forgets its token, on the protected table

my $forgetful = slurp_file("$folder/worker.js");
$forgetful =~ s/^.*fencing\.bind.*\n//m or die 'no bind in worker.js';
unlink "$folder/worker.js";
append_to_file("$folder/worker.js", $forgetful);
$keeper = program(60, "$folder/schedule.js", 10);
my $worker = program(60, "$folder/worker.js");
$before = statement_of(10);
like($worker->line, qr/^statement 10: TK002/, 'fenced: a worker that forgets to bind its token is refused');
is(statement_of(10), $before, 'fenced: and has written nothing');
$_->end foreach $worker, $keeper;

# ---- without its fencing lines

begin('plain', 'fencing');
($zombie, $successor, $keeper) = zombie_and_successor(7);
is(finish($successor), 'statement 7: written', 'plain: the successor writes');
$row = statement_of(7);
is($row, sums_of(7), 'plain: and its statement is right');
$zombie->wake;
is(finish($zombie), 'statement 7: written', 'plain: the zombie wakes up, and nobody refuses its write');
isnt(statement_of(7), $row, 'plain: the statement is overwritten');
is($owner->get("SELECT total + 1000 FROM statement WHERE customer = 7"), (split /\|/, $row)[1], 'plain: by one that lacks the last purchase');
$_->end foreach $zombie, $successor, $keeper;

done_testing();
