# The queries of docs/monitoring under prometheus-postgres-exporter, which connects as a role that is nothing but a member of
# pg_monitor; and the Grafana dashboard: it asks for nothing that the exporter does not export.
#
# Finds: a query that fails, or that pg_monitor may not run; a figure that does not move with what it counts; a panel
# that would stay empty.
use strict;
use warnings;

use FencingBouncer;
use FencingSession;
use FencingTest;
use HTTP::Tiny;
use JSON::PP;
use POSIX ();
use PostgreSQL::Test::Utils;
use Test::More;

my $folder = tree_root() . '/docs/monitoring';
my $node = fencing_node('metrics');
$node->append_conf('postgresql.conf', preload_conf() . "max_prepared_transactions = 2\n");
$node->start;
my $db = FencingSession->new($node);
$db->get(<<'SQL');
CREATE EXTENSION fencing;
CREATE ROLE monitor LOGIN IN ROLE pg_monitor;
CREATE TABLE account (id int PRIMARY KEY, balance numeric, fence_token bigint);
CREATE TABLE ledger (id int, fence_token bigint);
SELECT fencing.protect('account', 'fence_token', resource => 'account:{id}');
SELECT fencing.protect('ledger', 'fence_token', mode => 'observe');
SQL

my ($exporter, $port) = (undef, FencingBouncer::free_port());
{
	my $log = PostgreSQL::Test::Utils::tempdir() . '/exporter';
	$exporter = fork;
	die "could not fork: $!" if !defined $exporter;
	if ($exporter == 0)
	{
		open STDOUT, '>', $log;
		open STDERR, '>&', \*STDOUT;
		$ENV{DATA_SOURCE_NAME} = 'host=' . $node->host . ' port=' . $node->port . ' user=monitor dbname=postgres sslmode=disable';
		exec 'prometheus-postgres-exporter', "--extend.query-path=$folder/postgres-exporter.yml", "--web.listen-address=127.0.0.1:$port",
		  '--disable-default-metrics', '--disable-settings-metrics'
		  or POSIX::_exit(127);
	}
	until_true(sub { HTTP::Tiny->new->get("http://127.0.0.1:$port/")->{success} || process_state($exporter) eq '' }, 60, 0.05);
	process_state($exporter) ne '' or die 'the exporter has ended: ' . slurp_file($log);
}

# What the exporter says now: { metric => { 'label="value",...' => figure } }, and the type of each metric.
sub metrics
{
	my $response = HTTP::Tiny->new(timeout => 60)->get("http://127.0.0.1:$port/metrics");
	$response->{success} or die "no metrics: $response->{content}\n";
	my (%figures, %types);
	foreach my $line (split /\n/, $response->{content})
	{
		if ($line =~ /^# TYPE (\w+) (\w+)$/) { $types{$1} = $2; }
		elsif ($line =~ /^(\w+)(?:\{(.*)\})? (\S+)$/)
		{
			my ($name, $labels, $value) = ($1, $2 // '', $3);
			$labels =~ s/,?server="[^"]*"//;    # the address of the server
			$figures{$name}{ $labels =~ s/^,//r } = $value;
		}
	}
	return (\%figures, \%types);
}

# A figure by name and labels, which the exporter sorts.
sub figure
{
	my ($figures, $name, %labels) = @_;
	my $labels = join ',', map { qq($_="$labels{$_}") } sort keys %labels;
	return $figures->{$name}{$labels} // "none ($name\{$labels} of " . join('; ', sort keys %{ $figures->{$name} || {} }) . ')';
}

my ($before, $types) = metrics();
is(figure($before, 'pg_exporter_last_scrape_error'), 0, 'no query fails');
is_deeply([ grep { $_ ne '0' } values %{ $before->{pg_exporter_user_queries_load_error} } ], [], 'the file of queries is read');
my %db = (datname => 'postgres');
is(figure($before, 'fencing_leases_count', %db, state => 'held'), 0, 'nothing is held');
is(figure($before, 'fencing_guards_count', %db), 4, 'two tables are guarded, their TRUNCATE too');
is(figure($before, 'fencing_guards_disabled', %db), 0, 'no guard is disabled');
is(figure($before, 'fencing_holdups_count', %db), 0, 'nobody holds anybody up');
is(figure($before, 'fencing_problems_count', %db, severity => $_), 0, "verify finds no $_") foreach qw(error warning);
is(figure($before, 'fencing_token_epoch', %db), 0, 'tokens are those of the first epoch');

is_deeply([ sort keys %{ $before->{fencing_refusals_total} } ], [ map { qq(datname="postgres",relation="$_") } '', 'account', 'ledger' ],
	'every guarded table has a series before anything has happened');
is_deeply([ grep { $_ ne '0' } values %{ $before->{fencing_refusals_total} } ], [], 'which begins with 0');

# Two grants, one of which is then stolen; one that ends.
$db->get(q{SELECT fencing.acquire('account:1', '1 hour')});
$db->get(q{SELECT fencing.acquire('account:1', '1 hour', steal => 'always')});
$db->get(q{SELECT fencing.release('account:2', token) FROM fencing.acquire('account:2')});
$db->get(q{SELECT fencing.renew('account:1', 1)});
is($db->state_of('INSERT INTO account VALUES (1, 10, 1)'), 'TK001', 'a stale write');
is($db->state_of('INSERT INTO account VALUES (1, 10)'), 'TK002', 'a write without a token');
is($db->state_of('INSERT INTO account VALUES (3, 10, 3)'), 'TK003', 'a token that was never granted');
is($db->state_of(q{SELECT fencing.bind('account:1', 1)}), 'TK001', 'a stale binding');
is($db->state_of('INSERT INTO ledger VALUES (1)'), '00000', 'a write that is only observed');
is($db->state_of('INSERT INTO account VALUES (1, 10, 2)'), '00000', 'a write that is accepted');
$db->get('ALTER TABLE ledger DISABLE TRIGGER zz_fencing_guard');
my $open = FencingSession->new($node);
$open->get("BEGIN; SELECT fencing.acquire('account:4')");
my $prepared = FencingSession->new($node);
$prepared->get("BEGIN; INSERT INTO account VALUES (1, 10, 2) ON CONFLICT DO NOTHING; PREPARE TRANSACTION 'doubt'");

my ($after, undef) = metrics();
is(figure($after, 'pg_exporter_last_scrape_error'), 0, 'no query fails afterwards');
sub moved
{
	my ($name, %labels) = @_;
	my ($old) = $before->{$name}{ join ',', map { qq($_="$labels{$_}") } sort keys %labels };
	return figure($after, $name, %labels) - ($old // 0);
}
my %none = (%db, relation => '');
my %account = (%db, relation => 'account');
is(moved('fencing_grants_total', %none), 4, 'every grant is counted, also one that is not committed');
is(moved('fencing_renewals_lost_total', %none), 1, 'a renewal that was lost');
is(moved('fencing_refusals_total', %account), 3, 'the refusals of the table');
is(moved('fencing_refusals_total', %none), 1, 'the refusal of bind');
is(moved('fencing_observed_total', %db, relation => 'ledger'), 1, 'what was observed');
cmp_ok(moved('fencing_seals_total', %none), '>=', 2, 'a COMMIT and a PREPARE were sealed');
is(figure($after, 'fencing_refusals_last_5_minutes', %db, mode => 'enforce', sqlstate => 'TK001'), 2, 'TK001 twice');
is(figure($after, 'fencing_refusals_last_5_minutes', %db, mode => 'enforce', sqlstate => 'TK002'), 1, 'TK002 once');
is(figure($after, 'fencing_refusals_last_5_minutes', %db, mode => 'enforce', sqlstate => 'TK003'), 1, 'TK003 once');
is(figure($after, 'fencing_refusals_last_5_minutes', %db, mode => 'observe', sqlstate => 'TK002'), 1, 'TK002 once observed');
is(figure($after, 'fencing_leases_count', %db, state => 'held'), 1, 'one lease is held');
is(figure($after, 'fencing_leases_count', %db, state => 'released'), 1, 'one was released');
cmp_ok(figure($after, 'fencing_leases_longest_seconds', %db, state => 'held'), '>', 0, 'it is held for some time');
is(figure($after, 'fencing_guards_disabled', %db), 1, 'a guard is disabled');
is(figure($after, 'fencing_problems_count', %db, severity => 'error'), 1, 'verify finds it');
is(figure($after, 'fencing_problems_count', %db, severity => 'warning'), 1, 'and the prepared transaction');
is(figure($after, 'fencing_holdups_count', %db), 2, 'an open grant and a prepared transaction hold others up');
cmp_ok(figure($after, 'fencing_holdups_longest_seconds', %db), '>', 0, 'for some time');
$open->get('ROLLBACK');
$db->get(q{ROLLBACK PREPARED 'doubt'});

foreach my $name (sort grep { /^fencing/ } keys %$after)
{
	is($types->{$name}, $name =~ /_total$/ ? 'counter' : 'gauge', "$name has its type");
}

# ---- the dashboard

my $dashboard = eval { decode_json(slurp_file("$folder/grafana-dashboard.json")) };
ok($dashboard, 'the dashboard is JSON') or diag($@);
my @panels = @{ $dashboard->{panels} };
my (%ids, %places, @empty);
foreach my $panel (@panels)
{
	$ids{ $panel->{id} }++;
	my $grid = $panel->{gridPos};
	foreach my $x ($grid->{x} .. $grid->{x} + $grid->{w} - 1)
	{
		$places{"$x,$_"}++ foreach $grid->{y} .. $grid->{y} + $grid->{h} - 1;
		push @empty, "$panel->{title} is beyond the 24 columns" if $x > 23;
	}
	push @empty, "$panel->{title} asks for nothing" if !@{ $panel->{targets} || [] };
	push @empty, "$panel->{title} says nothing of itself" if !$panel->{description};
}
is("@empty", '', 'each panel asks for something, and says for what');
ok(!(grep { $_ > 1 } values %ids, values %places), 'no two panels have the same number or place');

# The metrics of an expression, each with the labels that are asked of it.
my %functions = map { $_ => 1 } qw(sum max by rate increase label_values);
my @expressions = map { $_->{expr} } map { @{ $_->{targets} } } @panels;
push @expressions, map { $_->{type} eq 'query' ? $_->{query} : () } @{ $dashboard->{templating}{list} };
my (@unknown, %asked);
foreach my $expression (@expressions)
{
	my @labels = $expression =~ /(\w+)\s*=~?"/g;
	push @labels, split /\s*,\s*/, $_ foreach $expression =~ /by \(([^)]*)\)/g;
	push @labels, $1 if $expression =~ /label_values\(\w+, (\w+)\)/;
	my $bare = $expression =~ s/"[^"]*"//gr;
	foreach my $name (grep { /^fencing/ } $bare =~ /\b([a-z]\w*)\b/g)
	{
		$asked{$name} = 1;
		my ($series) = sort keys %{ $after->{$name} || {} };
		if (!defined $series) { push @unknown, $name; next; }
		push @unknown, map { "$name has no label $_" } grep { $series !~ /\b\Q$_\E="/ } @labels;
	}
	push @unknown, map { "function $_" } grep { !$functions{$_} } $bare =~ /\b([a-z_]+)\s*\(/g;
}
is("@unknown", '', 'every metric and label that the dashboard asks for is exported');
my @unseen = grep { /^fencing/ && !$asked{$_} } sort keys %$after;
is("@unseen", '', 'and every metric that is exported is on the dashboard');

done_testing();

END
{
	my $status = $?;
	if ($exporter)
	{
		kill 'KILL', $exporter;
		waitpid $exporter, 0;
	}
	$? = $status;
}
