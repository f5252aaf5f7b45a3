# 041_hostile_arguments: whatever a function, a guard or a setting is given, the answer is a value or an error that the
# README and COMMENT ON promise: no crash, no internal error, nothing half done, no message that is not text.
#
# Edges are tried exhaustively, combinations at random: HOSTILE_SEED chooses others, HOSTILE_TIMES tries more of them. In
# five encodings of the server, since a name is bytes and a message must not cut a character.
# Caught here: a name cut in the middle of a character or compared by less than all of it; a format string made of a
# name; a template, option or span of time that is read past its end or overflows; an elog(ERROR) that a user can reach; a
# refused call that has drawn a token, or keeps a lock, a binding or a trigger.
use strict;
use warnings;

use FencingHostile;
use FencingSession;
use FencingTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed = defined $ENV{HOSTILE_SEED} ? $ENV{HOSTILE_SEED} : 20261130;
my $times = $ENV{HOSTILE_TIMES} || 1;
srand $seed;
note("HOSTILE_SEED=$seed HOSTILE_TIMES=$times");

my $node = fencing_node('main');
$node->append_conf('postgresql.conf', "log_statement = none\nlog_min_error_statement = panic\nautovacuum = off\nfsync = off\n");
$node->start;
my ($major) = $node->safe_psql('postgres', 'SHOW server_version_num') =~ /^(\d+)\d{4}$/;

my @resources = map { literal($_) } qw(granted expired released external unknown);
my @tokens = hostile_tokens();
my @spans = hostile_spans($major);
# A call that has to wait must not: only spans that are over at once, or refused.
my @short_spans = grep { $_ !~ /^interval '(30 seconds|1 minute)'/ } @spans;

# ---- what each may answer

my %allowed = (
	acquire => [qw(00000 22004 22023 55000)],
	renew => [qw(00000 22004 22023)],
	release => [qw(00000 22004 22023)],
	lookup => [qw(00000 22004 22023)],
	forget => [qw(00000 22004 22023)],
	prune => [qw(00000 22004 22023)],
	advance => [qw(00000 22004 22023 55000 TK001)],
	bind => [qw(00000 22004 22023 TK001 TK003)],
	protect => [qw(00000 22004 22023 42501 42P01 42809 42703 42804 42P10 42611 42710 55000)],
	unprotect => [qw(00000 22004 42501 42P01 42809 55000)],
	# 23505: a row of the trial that is inserted twice, when the guard has let it pass
	write => [qw(00000 22003 22004 22023 23505 55000 TK001 TK002 TK003)]);
# A trigger made by hand: what the server says of CREATE TRIGGER, what the guard says when it fires.
$allowed{trigger} = [ @{ $allowed{write} }, qw(39P01 42703 42804 42P10 42611 42809 42P17 0A000) ];

sub call
{
	my ($function, @arguments) = @_;
	return [ $function, "SELECT * FROM fencing.$function(" . join(', ', @arguments) . ')', @{ $allowed{$function} } ];
}

# ---- exhaustive: one argument at a time

# A name that is too short or too long is 22023, none is 22004, and any other is fine wherever a name is taken.
sub name_trials
{
	my @trials;
	foreach my $name (@_)
	{
		my $fits = defined $name && length $name >= 1 && length $name <= 512;
		my $refused = defined $name ? '22023' : '22004';
		my $resource = literal($name);
		push @trials, map { [ "name in $_->[0]", "SELECT * FROM fencing.$_->[0]", $fits ? $_->[1] : $refused ] }
		  [ "acquire($resource)", '00000' ], [ "renew($resource, 1)", '00000' ], [ "release($resource, 1)", '00000' ],
		  [ "lookup($resource)", '00000' ], [ "forget($resource)", '00000' ], [ "advance($resource, 1)", '00000' ],
		  [ "bind($resource, 1)", 'TK003' ];
		push @trials, [ 'name of a holder', "SELECT * FROM fencing.acquire('free', holder => $resource)", '00000' ];
		my $written = !defined $name ? '22004' : $fits ? 'TK003' : '22023';
		push @trials, [ 'name in a row', "SELECT fencing.protect('plain', 'fence_token', '{k}');"
			  . "INSERT INTO plain (id, k, fence_token) VALUES (3, $resource, 7)", $written ];
	}
	return @trials;
}

sub edge_trials
{
	my @trials;
	foreach my $token (@tokens)
	{
		foreach my $resource (@resources)
		{
			push @trials, map { call($_, $resource, $token) } qw(renew release advance bind);
			push @trials, [ 'bind and write', "SELECT fencing.protect('plain', 'fence_token', '{k}');SELECT fencing.bind($resource, $token);"
				  . "INSERT INTO plain (id, k) VALUES (3, $resource)", @{ $allowed{write} } ];
		}
		push @trials, [ 'token in a setting', "SELECT set_config('fencing.token', ($token)::text, true)", qw(00000 22023) ];
	}
	foreach my $span (@spans)
	{
		push @trials, call('acquire', "'free'", $span), call('acquire', "'free'", 'wait => ' . $span), call('prune', $span),
		  map { call('renew', $_, 1, $span) } @resources;
	}
	foreach my $word (map { literal($_) } hostile_words())
	{
		push @trials, call('acquire', "'granted'", "steal => $word"), call('protect', "'plain'", "resource => $word"),
		  call('protect', "'plain'", "token_column => $word");
		push @trials, map { call('protect', "'plain'", "'fence_token'", "'{id}'", "$_ => $word") } qw(issuer source missing mode);
		push @trials, map { [ "setting $_", "SELECT set_config('fencing.$_', $word, true)", qw(00000 22023) ] }
		  qw(token enforcement seal_timeout durable_grants);
	}
	push @trials, map { call('protect', "'plain'", "'fence_token'", literal($_)) } hostile_templates();
	push @trials, map { [ "$_ by hand", "SELECT fencing.$_()", '39P01' ] } qw(guard guard_truncate);
	push @trials, [ 'bound', 'SELECT * FROM fencing.bound()', '00000' ];
	return @trials;
}

# ---- random: combinations

my @relations = ('NULL', 0, 1, '4294967295', map { "'$_'" } qw(plain parted part rest parent child passing), q("qu''o""ted {id}"),
	qw(seen stored pair away plain_pkey pg_catalog.pg_class fencing.fence fencing.token_seq fencing.lease));
my @columns = map { literal($_) } undef, '', qw(fence_token nope id k flag amount gen small middle with_default zero ctid tableoid a=b we"ird),
  'FENCE_TOKEN', '........pg.dropped.8........', 'x' x 63;
my @tables = ('plain', 'parted', 'passing', '"qu\'o""ted {id}"');

sub option { return any_of(@_[ 1 .. $#_ ], any_of(hostile_words())) if rand() < 0.05; return any_of(@_); }

sub random_protect
{
	return call('protect', any_of("'plain'", any_of(@relations)) . '::regclass', any_of("'fence_token'", any_of(@columns)),
		literal(any_of(undef, '{id}', '{k}', any_of(hostile_templates()))),
		literal(option('fencing', 'external')), literal(option('any', 'transaction')), literal(option('reject', 'allow')),
		literal(option('enforce', 'observe')));
}

sub random_write
{
	my ($table) = @_;
	my ($id, $name, $token) = (any_of(1, 2, 3), any_of(@resources, literal(any_of(hostile_words()))), any_of(@tokens));
	my @writes = (
		"UPDATE $table SET k = $name WHERE id = $id", "UPDATE $table SET k = $name, fence_token = $token WHERE id = $id",
		"UPDATE $table SET id = id + 5, fence_token = $token", "UPDATE $table SET fence_token = fence_token",
		"DELETE FROM $table WHERE id = $id", "DELETE FROM $table", "TRUNCATE $table",
		"INSERT INTO $table (id, k, fence_token) VALUES (3, $name, $token), (4, $name, $token)");
	push @writes, "INSERT INTO plain (id, k, fence_token) VALUES ($id, $name, $token) ON CONFLICT (id) DO UPDATE SET fence_token = $token"
	  if $table eq 'plain';
	push @writes, "MERGE INTO $table USING (VALUES ($id), (4)) v (n) ON id = n WHEN MATCHED THEN UPDATE SET fence_token = $token "
	  . "WHEN NOT MATCHED THEN INSERT (id, k, fence_token) VALUES (n, $name, $token)" if $major >= 15;
	return any_of(@writes);
}

# A token by bind, by the setting, by both, by none.
sub random_claim
{
	my $claim = '';
	$claim .= 'SELECT fencing.bind(' . any_of(@resources) . ', ' . any_of(1, 10, any_of(@tokens)) . ');' if rand() < 0.3;
	$claim .= "SELECT set_config('fencing.token', (" . any_of(1, 10, any_of(@tokens)) . ')::text, true);' if rand() < 0.3;
	return $claim;
}

sub random_guarded_write
{
	my $table = any_of(@tables);
	my $template = any_of(undef, 'granted', 'external', '{k}', '{k}', '{k}{id}', '{id}');
	my $options = defined $template ? ', issuer => ' . literal(any_of('fencing', 'external')) : '';
	$options .= ', source => ' . literal(any_of('any', 'transaction')) . ', missing => ' . literal(any_of('reject', 'allow'));
	$options .= ', mode => ' . literal(any_of('enforce', 'enforce', 'observe'));
	my $column = any_of('fence_token', 'fence_token', $table eq 'plain' && !defined $template ? 'small' : 'fence_token', defined $template ? undef : 'fence_token');
	return [ 'write', random_claim() . "SELECT fencing.protect(${\literal($table)}, ${\literal($column)}, ${\literal($template)}$options);"
		  . join(';', map { random_write($table) } 1 .. any_of(1, 2, 3)), @{ $allowed{write} } ];
}

sub random_trigger
{
	my @words = ('fence_token', 'token_column=fence_token', 'resource={k}', 'issuer=external', 'source=transaction', 'missing=allow', 'mode=observe',
		grep { defined $_ && length $_ < 10_000 } hostile_words());
	my $table = any_of('plain', 'parted', 'passing', 'seen');
	my $function = any_of('guard', 'guard', 'guard', 'guard_truncate');
	my @arguments = map { literal(any_of(@words[ 0 .. 6 ], any_of(@words))) } 1 .. any_of(0, 1, 1, 2, 3, 40);
	my $events = any_of('INSERT OR UPDATE OR DELETE', 'INSERT OR UPDATE OR DELETE', 'UPDATE OF k', 'INSERT', 'TRUNCATE');
	return [ 'trigger', random_claim() . 'CREATE TRIGGER zz_fencing_guard ' . any_of('BEFORE', 'BEFORE', 'BEFORE', 'AFTER', 'INSTEAD OF') . " $events ON $table "
		  . any_of('FOR EACH ROW', 'FOR EACH ROW', 'FOR EACH STATEMENT') . any_of('', '', '', ' WHEN (true)')
		  . " EXECUTE FUNCTION fencing.$function(" . join(', ', @arguments) . ');'
		  . join(';', map { random_write($table) } 1, 2), @{ $allowed{trigger} } ];
}

sub random_call
{
	my ($resource, $token) = (any_of(@resources, literal(any_of(hostile_words()))), any_of(@tokens));
	return any_of(
		call('acquire', $resource, any_of(@spans), literal(any_of(hostile_words())), any_of(@short_spans), literal(any_of(qw(never same_holder always)))),
		call('renew', $resource, $token, any_of(@spans)), call('release', $resource, $token), call('advance', $resource, $token),
		call('bind', $resource, $token), call('forget', $resource), call('lookup', $resource), call('prune', any_of(@spans)),
		call('unprotect', any_of(@relations) . '::regclass'));
}

# ---- run

sub tried
{
	my ($database, @trials) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($count, @wrong) = try_all($node, $database, @trials);
	is(join("\n", splice @wrong, 0, 20), '', "$database: " . @trials . ' trials, each with an answer that is promised');
	note(join ' ', map { "$_:$count->{$_}" } sort keys %$count);
	return $count;
}

foreach my $encoding (qw(UTF8 LATIN1 EUC_JP WIN1251 SQL_ASCII))
{
	my $database = "in_\L$encoding";
	$node->safe_psql('postgres', "CREATE DATABASE $database TEMPLATE template0 ENCODING '$encoding' LC_COLLATE 'C' LC_CTYPE 'C'");
	$node->safe_psql($database, trial_sql());
	my @names = hostile_names($encoding);
	tried($database, name_trials(@names));

	# The same outside of any savepoint: each name is granted, bound at a COMMIT and written, and is nobody else's.
	my @good = grep { defined $_ && length $_ >= 1 && length $_ <= 512 } @names;
	my $script = "CREATE TABLE guarded (k text, fence_token bigint);SELECT fencing.protect('guarded', 'fence_token', '{k}');"
	  . "CREATE TABLE elsewhere (k text, n bigint);SELECT fencing.protect('elsewhere', resource => '{k}-away', issuer => 'external');\n";
	my $number = 0;
	foreach my $name (map { literal($_) } @good)
	{
		$number++;
		my $token = "(SELECT token FROM fencing.lookup($name))";
		$script .= "SELECT fencing.acquire($name, '1 hour', holder => $name);\nBEGIN;\nSELECT fencing.bind($name, $token);\n"
		  . "INSERT INTO guarded VALUES ($name);\nCOMMIT;\n"
		  . "BEGIN;\nSET LOCAL fencing.token = $number;\nINSERT INTO elsewhere VALUES (left($name, -5), $number);\nCOMMIT;\n"
		  . "SELECT fencing.renew($name, $token);\nSELECT fencing.release($name, $token);\n";
	}
	my ($status, $out, $errors) = $node->psql($database, $script, on_error_stop => 0);
	is($errors, '', "$database: " . @good . ' names granted, bound, written, renewed and released');
	is( $node->safe_psql($database,
			'SELECT count(*), count(DISTINCT k), count(DISTINCT g.fence_token), bool_and(f.token = g.fence_token AND f.holder = k), bool_and(f.released_at IS NOT NULL) FROM guarded g JOIN fencing.fence f ON f.resource = k'),
		join('|', (scalar @good) x 3, 't', 't'), "$database: ... each with a token of its own");
	is($node->safe_psql($database,
			"SELECT count(*) FROM (SELECT k, max(n) AS n FROM elsewhere GROUP BY k) e LEFT JOIN fencing.fence f ON f.resource = e.k || '-away' WHERE f.token IS DISTINCT FROM e.n"),
		'0', "$database: ... and a fence from elsewhere for each, raised at COMMIT");
}

my $count = tried('in_utf8', edge_trials());
cmp_ok($count->{'00000'} || 0, '>', 100, '... many of which succeed');
foreach my $kind ([ 'protect', \&random_protect, 700 ], [ 'write', \&random_guarded_write, 900 ], [ 'trigger', \&random_trigger, 500 ], [ 'call', \&random_call, 700 ])
{
	my ($name, $make, $number) = @$kind;
	$count = tried('in_utf8', map { $make->() } 1 .. $number * $times);
	cmp_ok($count->{'00000'} || 0, '>=', $number / 20, "... $name: enough of which succeed to say something");
}

# A fence from elsewhere is raised at COMMIT to every token there is, and never goes down.
my $session = FencingSession->new($node, dbname => 'in_utf8');
my @rising = grep { $_ >= 1 } split /\n/, $session->get("SELECT DISTINCT t FROM unnest(ARRAY[" . join(', ', @tokens) . ']) t WHERE t IS NOT NULL ORDER BY t');
my $expected = 1;
$session->get("SELECT fencing.advance('rising', 1)");
foreach my $token (map { ($_, 5) } @rising)
{
	my $state = $session->state_of("BEGIN; SELECT fencing.bind('rising', $token)");
	my $committed = $session->state_of('COMMIT');
	$state = $committed if $state eq '00000';
	is($state, $token < $expected ? 'TK001' : '00000', "bind of $token");
	$expected = $token if $token > $expected;
	is($session->get("SELECT token FROM fencing.lookup('rising')"), $expected, "... the fence is $expected");
}

# ---- the end of all tokens

$node->safe_psql('postgres', 'CREATE DATABASE spent');
$node->safe_psql('spent', trial_sql());
$session = FencingSession->new($node, dbname => 'spent');
my $highest = 3;
foreach my $above (split /\n/, $session->get("SELECT DISTINCT t FROM unnest(ARRAY[" . join(', ', @tokens) . ']) t WHERE t IS NOT NULL ORDER BY t'))
{
	my $refused = $above < 0 || $above eq '9223372036854775807';
	is($session->get("SELECT attempt('SELECT fencing.fast_forward($above)')"), $refused ? '22023' : '00000', "fast_forward($above)");
	next if $refused || $above eq '9223372036854775806';
	my $token = $session->get('SELECT fencing.next_token()');
	ok($token > $highest && $token > $above, "... the next token is $token");
	$highest = $token;
}
is($session->get("SELECT attempt('SELECT fencing.fast_forward(NULL)')"), '22004', 'fast_forward(NULL)');
is($session->get("SELECT token FROM fencing.acquire('granted', steal => 'always')"), '9223372036854775807', 'the last token');
foreach my $statement ('SELECT fencing.next_token()', "SELECT fencing.acquire('more')", "SELECT fencing.acquire('granted', steal => 'always')")
{
	is($session->get("SELECT attempt(${\literal($statement)})"), '2200H', "then $statement");
}
$session->close;

# ---- what the server says of all that

my $log = slurp_file($node->logfile);
my @faults = grep { /PANIC|TRAP|terminated by signal|server process .* exited|FATAL/ } split /\n/, $log;
is(join("\n", @faults), '', 'no crash in the log');

$node->stop;
done_testing();
