# 002_grant_order: I2, granted in order, with I1. For one resource, in the order in which grants commit, tokens
# only grow; no token is granted twice.
#
# Runs against a library built here with -DFENCING_STOP_POINTS: a backend stops itself (SIGSTOP) between the
# look without a lock and the lock, between the draw and the write, or before its commit. First each of these
# moments alone, then sixteen sessions on three resources that stop where chance wants. The order of commits is
# the server's own word: logical decoding of a table that each grant is written to.
# Caught here: the lock left out, or taken in a mode that does not exclude; no second look under the lock; a
# draw before the lock; a lock given back before commit; a grant below the fence after the sequence has been
# set back; fast_forward that compares and sets in two steps, or waits for open transactions.
use strict;
use warnings;

use FencingSession;
use FencingTest;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $node = fencing_node('main');
$node->append_conf('postgresql.conf', stop_point_conf() . <<'CONF');
wal_level = logical
max_wal_senders = 4
max_replication_slots = 4
max_connections = 60
autovacuum = off
log_statement = none
CONF
$node->start;
$node->safe_psql('postgres', <<'SQL');
CREATE EXTENSION fencing;
CREATE TABLE grant_log (resource text, token bigint, steal text, points text,
	acquired_at timestamptz, expires_at timestamptz);
SQL

sub stopped
{
	my ($session) = @_;
	return until_true(sub { process_state($session->pid) eq 'T' }, 30);
}

sub resume
{
	my ($session) = @_;
	kill 'CONT', $session->pid;
	return;
}

# One moment at a time. The other session must not be kept waiting for ever by the stopped one.
my $first = FencingSession->new($node);
my $second = FencingSession->new($node);
my $acquire = q(SELECT token FROM fencing.acquire('one', '1 hour', wait => %s, steal => '%s'));
my $sequence = q(SELECT last_value FROM fencing.token_seq);

$first->get(q(SET fencing.stop_points = 'acquire_looked'));
$first->send(sprintf $acquire, q('0'), 'never');
ok(stopped($first), 'a backend stops between look and lock');
my $token = $second->get(sprintf $acquire, q('0'), 'never');
like($token, qr/^\d+$/, 'another one is granted the resource meanwhile');
resume($first);
is($first->wait, '', 'the first looks again under the lock, and gets no row');
is($first->sqlstate, '00000', '... and no error');
is($second->get($sequence), $token, 'the loser has drawn no token');

$first->get(q(SET fencing.stop_points = 'acquire_drawn'));
$first->send(sprintf $acquire, q('0'), 'always');
ok(stopped($first), 'a backend stops between draw and write');
is($second->get(sprintf($acquire, q('0'), 'always'), 30), '', 'another one gets no row meanwhile, although it would steal');
my $drawn = $second->get('SELECT fencing.next_token()');
$second->send(sprintf $acquire, q('20 s'), 'always');
ok(!$second->answered(0.5), 'nor while it waits');
resume($first);
$token = $first->wait;
cmp_ok($token, '<', $drawn, 'the first is granted what it had drawn');
cmp_ok($second->wait, '>', $drawn, 'and the one that waited a greater token');

# The SET would stop at its own commit.
$first->get(q(SET fencing.stop_points = ''));
$first->get('BEGIN');
$first->get(q(SET LOCAL fencing.stop_points = 'before_commit'));
$token = $first->get(sprintf $acquire, q('0'), 'always');
$first->send('COMMIT');
ok(stopped($first), 'a backend stops before its commit');
is($second->get(sprintf($acquire, q('0'), 'always'), 30), '', 'another one gets no row meanwhile, although it would steal');
is($second->state_of(q(SELECT fencing.release('one', (SELECT token FROM fencing.lookup('one')))), 30), '55P03',
	'and release says that it cannot know');
resume($first);
$first->wait;
cmp_ok($second->get(sprintf $acquire, q('0'), 'always'), '>', $token, 'after the commit the next grant is greater');
$first->close;
$second->close;

# Sixteen sessions, three resources. $trouble is called every few milliseconds while they run.
sub run_sessions
{
	my ($seconds, $points, $trouble) = @_;
	my $script = PostgreSQL::Test::Utils::tempdir() . '/acquire.sql';
	append_to_file($script, <<"SQL");
\\set resource random(1, 3)
\\set point random(1, $points)
\\set steal random(1, 3)
\\set holder random(1, 4)
\\set wait random(1, 3)
\\set fate random(1, 10)
BEGIN;
SELECT set_config('fencing.stop_points',
	(ARRAY['', 'acquire_looked', 'acquire_drawn', 'before_commit', 'acquire_looked,before_commit'])[:point], true);
INSERT INTO grant_log
	SELECT resource, token, (ARRAY['never', 'same_holder', 'always'])[:steal],
		current_setting('fencing.stop_points'), acquired_at, expires_at
	FROM fencing.acquire('job-' || :resource, '20 ms', 'holder-' || :holder,
		(ARRAY[interval '0', '100 ms', '1 s'])[:wait], (ARRAY['never', 'same_holder', 'always'])[:steal]);
\\if :fate = 1
ROLLBACK;
\\else
COMMIT;
\\endif
SQL
	$node->safe_psql('postgres', q(TRUNCATE grant_log; SELECT pg_create_logical_replication_slot('order', 'test_decoding')));
	my ($out, $err) = ('', '');
	local $ENV{PGAPPNAME} = 'storm';
	my $run = IPC::Run::start(
		['pgbench', '-n', '-c', '16', '-j', '2', '-T', $seconds, '-f', $script, $node->connstr('postgres')],
		'>', \$out, '2>', \$err, IPC::Run::timeout(180));
	$run->pump_nb;
	delete $ENV{PGAPPNAME};
	my ($number_stopped, %release_at, @backends) = (0);
	my $monitor = FencingSession->new($node);
	while ($run->pumpable)
	{
		$run->pump_nb;
		@backends = split /\n/, $monitor->get(q(SELECT pid FROM pg_stat_activity WHERE application_name = 'storm'))
		  if @backends < 16;
		foreach my $pid (@backends)
		{
			next if process_state($pid) ne 'T';
			if (!defined $release_at{$pid})
			{
				$number_stopped++;
				$release_at{$pid} = time + (rand() < 0.1 ? 0.2 : 0.03) * rand();
			}
			next if time < $release_at{$pid};
			kill 'CONT', $pid;
			delete $release_at{$pid};
		}
		$trouble->() if $trouble;
		sleep 0.002;
	}
	ok($run->finish, "pgbench ran for $seconds s without an error") or diag($err);
	$monitor->close;

	my $decoded = $node->safe_psql('postgres', q(SELECT data FROM pg_logical_slot_get_changes('order', NULL, NULL,
		'include-xids', '0', 'skip-empty-xacts', '1') WHERE data LIKE 'table public.grant_log: INSERT:%'));
	$node->safe_psql('postgres', q(SELECT pg_drop_replication_slot('order')));
	my @grants = map {
		my ($resource, $number, $steal, $where, $acquired, $expires) =
		  /resource\[text\]:'(.*?)' token\[bigint\]:(\d+) steal\[text\]:'(.*?)' points\[text\]:'(.*?)' acquired_at\S* \S+ \S+ \S+:'(.*?)' expires_at\S* \S+ \S+ \S+:'(.*?)'/
		  or die "cannot read '$_'\n";
		{ resource => $resource, token => $number, steal => $steal, points => $where, acquired => $acquired,
			expires => $expires };
	} split /\n/, $decoded;
	return ($number_stopped, @grants);
}

# How often a grant is not above the one before it of the same resource.
sub out_of_order
{
	my (%last, @wrong);
	foreach my $grant (@_)
	{
		my $before = $last{$grant->{resource}};
		push @wrong, "$grant->{resource}: $grant->{token} after $before->{token}"
		  if $before && $grant->{token} <= $before->{token};
		$last{$grant->{resource}} = $grant;
	}
	diag(join "\n", @wrong[0 .. ($#wrong > 9 ? 9 : $#wrong)]) if @wrong;
	return scalar @wrong;
}

{
	my ($number_stopped, @grants) = run_sessions(12, 5, undef);
	note(scalar(@grants) . " grants, $number_stopped stops");
	cmp_ok(scalar(@grants), '>=', 100, 'enough grants were committed');
	cmp_ok($number_stopped, '>=', 100, 'backends stopped often enough');
	foreach my $resource ('job-1', 'job-2', 'job-3')
	{
		cmp_ok(scalar(grep { $_->{resource} eq $resource } @grants), '>=', 20, "grants of $resource");
	}
	foreach my $point ('acquire_looked', 'acquire_drawn', 'before_commit')
	{
		cmp_ok(scalar(grep { $_->{points} eq $point } @grants), '>=', 5, "grants of sessions that stopped at $point");
	}
	is(out_of_order(@grants), 0, 'for each resource tokens grow in the order of commits');

	my (%count, %last, $early);
	$count{$_->{token}}++ foreach @grants;
	is(scalar(grep { $_ > 1 } values %count), 0, 'no token was granted twice');
	# Times are of one clock, read under the lock: text of one time zone compares as time does.
	foreach my $grant (@grants)
	{
		my $before = $last{$grant->{resource}};
		$early++ if $before && $grant->{steal} eq 'never' && padded($grant->{acquired}) lt padded($before->{expires});
		$last{$grant->{resource}} = $grant;
	}
	is($early, undef, 'nobody was granted a lease that had not expired, except by stealing it');
}

# timestamptz prints without trailing zeros.
sub padded
{
	my ($time) = @_;
	my ($seconds, $fraction) = $time =~ /^(\S+ \d\d:\d\d:\d\d)(?:\.(\d+))?/ or die "not a time: '$time'\n";
	return $seconds . '.' . substr(($fraction || '') . '000000', 0, 6);
}

# A superuser sets the sequence back: the next grant of each resource is above its fence all the same.
$node->safe_psql('postgres', q(SELECT setval('fencing.token_seq', 1, false)));
foreach my $resource ('job-2', 'job-1', 'job-3', 'one', 'job-1')
{
	my $fence = $node->safe_psql('postgres', "SELECT token FROM fencing.lookup('$resource')");
	my $next = $node->safe_psql('postgres', "SELECT token FROM fencing.acquire('$resource', steal => 'always')");
	cmp_ok($next, '>', $fence, "the sequence was set back: the grant of $resource is above its fence");
}

# The same while sessions run: it heals itself as often as it happens, also for a backend that had drawn already.
{
	my $superuser = FencingSession->new($node);
	my $next = 0;
	my $set_back = 0;
	my ($number_stopped, @grants) = run_sessions(5, 5, sub {
		return if time < $next;
		$superuser->get(q(SELECT setval('fencing.token_seq', 1, false)));
		$set_back++;
		$next = time + 0.1;
	});
	cmp_ok(scalar(@grants), '>=', 50, 'grants were committed while the sequence was set back');
	cmp_ok($set_back, '>=', 10, "... which happened $set_back times");
	is(out_of_order(@grants), 0, 'tokens of each resource grow all the same');
	$superuser->close;
}

# fast_forward and draws, each in an open transaction, do not wait for one another.
{
	my $drawer = FencingSession->new($node);
	my $forwarder = FencingSession->new($node);
	$_->get(q(SET lock_timeout = '2s')) foreach $drawer, $forwarder;
	$drawer->get('BEGIN');
	my $before = $drawer->get('SELECT fencing.next_token()');
	$forwarder->get('BEGIN');
	is($forwarder->get("SELECT fencing.fast_forward($before + 10)"), $before + 10,
		'fast_forward beside an open transaction that has drawn');
	is($drawer->get('SELECT fencing.next_token()'), $before + 11,
		'a draw beside an open transaction that has moved the sequence');
	is($forwarder->get("SELECT fencing.fast_forward($before)"), $before + 11,
		'a lower fast_forward lowers nothing, and says what the next token exceeds');
	$forwarder->get('ROLLBACK');
	is($drawer->get('SELECT fencing.next_token()'), $before + 12, 'nor does its ROLLBACK');
	$_->close foreach $drawer, $forwarder;
}

# 1,000 times close to the running value, against eight sessions that draw.
my $race = compile_libpq('fast_forward_race');
my ($out, $err) = ('', '');
my $passed = IPC::Run::run([$race, $node->connstr('postgres'), '8', '1000'], '>', \$out, '2>', \$err, IPC::Run::timeout(180));
ok($passed, 'fast_forward against draws: nothing lowered, none twice, nobody waits') or diag($out, $err);
like($out, qr/^draws \d{4,}$/m, 'enough was drawn');

done_testing();
