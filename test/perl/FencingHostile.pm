# FencingHostile: values at the edges and past them for the arguments of SQL functions, as SQL literals, and the
# trial of a statement that is given such values.
package FencingHostile;

use strict;
use warnings;

use Encode qw(encode);
use Exporter 'import';

our @EXPORT = qw(any_of hostile_names hostile_spans hostile_templates hostile_tokens hostile_words literal trial_sql try_all);

# Any of the values, by Perl's generator: the caller has seeded it.
sub any_of
{
	return $_[ int(rand(@_)) ];
}

# literal($bytes): a string constant in plain ASCII, whatever the bytes are; NULL for undef.
sub literal
{
	my ($bytes) = @_;
	return 'NULL' if !defined $bytes;
	$bytes =~ s/([^ !#-&(-\[\]-~])/sprintf '\\x%02x', ord $1/ge;
	return "E'$bytes'";
}

# What a word of ASCII can be, in no encoding's particular way. No zero byte: no text of the server has one.
my @words = (
	undef, '', ' ', '0', '-1', 'a', 'A', 'job-1', "a'b", "a''b", 'a"b', 'a\\b', '\\', '\\0', '\\x00', '\\000', "\x01", "\x7f",
	"a\nb", "a\r\nb", "\t", "\e[31m", '{', '}', '{}', '{{', '}}', '{id}', '{{id}}', '%s%n%p', '%', '$1', '$$', ';', '--', '/*',
	"'; DROP TABLE fencing.fence; --", 'a=b', '=', 'resource=x', 'NULL', 'null', '.', '..', '../../x', 'infinity', '1e400',
	'x' x 63, 'x' x 64, 'x' x 511, 'x' x 512, 'x' x 513, 'x' x 8192, '{' x 600, '}' x 512, "'" x 512, '\\' x 512, '%s' x 256, "\n" x 512,
	'x' x 100_000);

# The characters of an encoding that take more than one byte or the high bit, at both sides of 512 bytes.
my %characters = (
	UTF8 => [ 'utf8', "\x{e9}", "\x{3042}", "\x{1f512}", "\x{202e}", "\x{feff}", "\x{301}", "\x{10ffff}", "\x{80}" ],
	LATIN1 => [ 'iso-8859-1', "\x{e9}", "\x{ff}", "\x{80}", "\x{a0}" ],
	EUC_JP => [ 'euc-jp', "\x{3042}", "\x{ff71}" ],
	WIN1251 => [ 'cp1251', "\x{436}", "\x{44f}" ],
	SQL_ASCII => [ 'iso-8859-1', "\x{ff}", "\x{c0}\x{80}", "\x{ed}\x{a0}\x{80}", "\x{fe}\x{ff}" ]);

# hostile_names($encoding): names of resources, as bytes of that encoding, good and bad ones.
sub hostile_names
{
	my ($encoding) = @_;
	my ($perl_name, @characters) = @{ $characters{$encoding} };
	my @names = $encoding eq 'UTF8' ? @words : (undef, '', 'a', 'x' x 512, 'x' x 513);
	foreach my $bytes (map { encode($perl_name, $_, Encode::FB_CROAK | Encode::LEAVE_SRC) } @characters)
	{
		my $fit = int(512 / length $bytes);
		push @names, $bytes, "a$bytes", $bytes x $fit, $bytes x ($fit + 1), 'x' x (512 % length $bytes) . $bytes x $fit,
		  'x' x (512 % length($bytes) + 1) . $bytes x $fit;
	}
	my %seen;
	return grep { !defined $_ || !$seen{$_}++ } @names;
}

sub hostile_words { return @words; }

# Numbers, as SQL expressions: both sides of everything that has a meaning or a size.
sub hostile_tokens
{
	return (
		'NULL', 0, -1, 1, 2, 9, 10, 11, 32767, 32768, 2147483647, 2147483648, 4294967296, '(1::bigint << 40) - 1', '1::bigint << 40',
		'(1::bigint << 40) + 1', '(1::bigint << 53) - 1', '1::bigint << 53', '(1::bigint << 53) + 1', '1::bigint << 62',
		'9223372036854775806', '9223372036854775807', '-9223372036854775808', '-9223372036854775807');
}

# Spans of time. An infinite one is a syntax error before 17.
sub hostile_spans
{
	my ($major) = @_;
	return (
		'NULL',
		map { "interval '$_'" } '0', '1 microsecond', '-1 microsecond', '1 day -24 hours', '1 day -25 hours', '1 month -30 days',
		'1 month -31 days', '-1 month 31 days', '-12 months 361 days', '30 seconds', '1 minute', '1 minute 1 microsecond', '1 day', '1 year', '10 years',
		'10 years 1 microsecond', '120 months -1 day 24 hours', '121 months', '3650 days', '3660 days', '3661 days', '87840 hours',
		'87841 hours', '-10 years', '100000 years', '178000000 years', '-178000000 years', '2147483647 days', '-2147483648 days',
		'2147483647 months', '-2147483648 months', '2562047788:00:54.775807', '-2562047788:00:54.775807',
		'2147483647 months 2147483647 days 2562047788:00:54.775807', '2147483647 months -2147483648 days',
		$major >= 17 ? ('infinity', '-infinity') : ());
}

# hostile_templates($name...): templates of a resource over the columns of the trial's tables, and what are none.
sub hostile_templates
{
	return (
		@words,
		'job-{id}', '{id}{id}', '{{{id}}}', '{{{{', '{id', 'id}', '{ id}', '{id }', '{ID}', '{k}', '{k}-{id}', '{we"ird} {x}', '{we"ird}', "{it's}",
		'{big}', '{flag}', '{amount}', '{data}', '{list}', '{gen}', '{ctid}', '{tableoid}', '{nope}', '{fence_token}', '{small}',
		'{........pg.dropped.8........}', '{id}' x 31, '{id}' x 32, '{id}' x 33, 'a{id}' x 16, '{{' x 31 . 'x', '{{' x 32, '{{' x 600,
		'x' x 512 . '{id}', 'x' x 513 . '{id}', '{' . 'x' x 63 . '}', '{' . 'x' x 64 . '}', '{' . 'x' x 100_000 . '}');
}

# The tables of the trial, and attempt(statement): the SQLSTATE of a statement that is undone afterwards, '00000' when
# it succeeded, and what is wrong beside: it must leave nothing behind, neither in tables nor in the transaction, an
# error must have drawn no token and changed no record, and what it says must be text of the database's encoding.
sub trial_sql
{
	return <<'SQL';
CREATE EXTENSION fencing;
CREATE TABLE plain (id int PRIMARY KEY, k text, "it's" text, flag boolean, big bigint, amount numeric, data jsonb, dropped int,
	list int[], gen bigint GENERATED ALWAYS AS (id * 2) STORED, small smallint, middle int, with_default bigint DEFAULT 5,
	zero bigint DEFAULT 0, "a=b" bigint, "we""ird" bigint, fence_token bigint);
ALTER TABLE plain DROP COLUMN dropped;
CREATE TABLE parted (id int, k text, fence_token bigint) PARTITION BY LIST (id);
CREATE TABLE part PARTITION OF parted FOR VALUES IN (1);
CREATE TABLE rest PARTITION OF parted DEFAULT;
CREATE TABLE parent (id int, k text, fence_token bigint);
CREATE TABLE child () INHERITS (parent);
CREATE UNLOGGED TABLE "qu'o""ted {id}" (id int, k text, fence_token bigint);
CREATE VIEW seen AS SELECT * FROM plain;
CREATE MATERIALIZED VIEW stored AS SELECT id, k, fence_token FROM plain;
CREATE TYPE pair AS (id int, fence_token bigint);
CREATE FOREIGN DATA WRAPPER nothing;
CREATE SERVER nowhere FOREIGN DATA WRAPPER nothing;
CREATE FOREIGN TABLE away (id int, k text, fence_token bigint) SERVER nowhere;
INSERT INTO plain (id, k, fence_token) VALUES (1, 'granted', 0), (2, 'external', 10);
INSERT INTO parted VALUES (1, 'granted', 0), (2, 'external', 10);
SELECT fencing.acquire('granted', '1 hour', 'w1');
SELECT fencing.acquire('expired', '1 microsecond');
SELECT fencing.acquire('released');
SELECT fencing.release('released', 3);
SELECT fencing.advance('external', 10);

CREATE FUNCTION state() RETURNS text LANGUAGE sql AS $$
	SELECT concat_ws('|',
		(SELECT md5(string_agg(f::text, ';' ORDER BY resource)) FROM fencing.fence f),
		(SELECT string_agg(b::text, ';' ORDER BY resource) FROM fencing.bound() b),
		(SELECT string_agg(concat(tgrelid, tgname, tgtype, tgenabled, tgargs), ';' ORDER BY oid) FROM pg_trigger WHERE NOT tgisinternal),
		(SELECT string_agg(p::text, ';' ORDER BY id) FROM plain p),
		(SELECT string_agg(p::text, ';' ORDER BY id) FROM parted p),
		current_setting('fencing.token', true), current_setting('fencing.enforcement', true),
		(SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND classid = 'fencing.fence'::regclass))
$$;
CREATE FUNCTION drawn() RETURNS text LANGUAGE sql AS $$
	SELECT concat_ws(' ', t.last_value, t.is_called, o.last_value) FROM fencing.token_seq t, fencing.origin_seq o
$$;
CREATE FUNCTION attempt(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	state_before text := state();
	drawn_before text := drawn();
	code text;
	message text;
	detail text;
	hint text;
BEGIN
	BEGIN
		EXECUTE statement;
		RAISE SQLSTATE '99000';
	EXCEPTION WHEN OTHERS THEN
		GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	END;
	PERFORM convert_from(textsend(concat(message, detail, hint)), getdatabaseencoding());
	RETURN concat(CASE code WHEN '99000' THEN '00000' ELSE code END,
		CASE WHEN message = '' THEN ' says nothing' END,
		CASE WHEN state() <> state_before THEN ' left something behind' END,
		CASE WHEN code <> '99000' AND drawn() <> drawn_before THEN ' drew a token' END);
END $$;
SQL
}

# try_all($node, $database, @trials): each trial is [name, statement, allowed SQLSTATEs], tried in one session. Returns how many there were of each SQLSTATE, and a line for each that got something else or no answer.
sub try_all
{
	my ($node, $database, @trials) = @_;
	my $number = 0;
	my $script = "SET client_min_messages = error;\nSET statement_timeout = '30s';\n"
	  . "CREATE TEMPORARY TABLE passing (id int, k text, fence_token bigint);\n";
	$script .= 'SELECT ' . $number++ . ", attempt(${\literal($_->[1])});\n" foreach @trials;
	my ($stdout, $stderr) = ('', '');
	$node->psql($database, $script, stdout => \$stdout, stderr => \$stderr, on_error_stop => 0);
	my (%answer, %count, @wrong);
	$answer{$1} = $2 while $stdout =~ /^(\d+)\|(.*)$/mg;
	foreach my $i (0 .. $#trials)
	{
		my ($name, $statement, @allowed) = @{ $trials[$i] };
		my $got = defined $answer{$i} ? $answer{$i} : 'no answer';
		$count{$got}++;
		next if grep { $_ eq $got } @allowed;
		push @wrong, "$name: $got from " . (length $statement > 600 ? substr($statement, 0, 600) . '...' : $statement);
	}
	push @wrong, substr($stderr, 0, 2000) if $stderr ne '';
	return (\%count, @wrong);
}

1;
