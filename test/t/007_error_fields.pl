# 007_error_fields: I8, a refusal is an error that says who lost against what. SQLSTATE, message, DETAIL, HINT, schema,
# table, column and constraint arrive where drivers look for them: read here by a program on libpq, by
# PQresultErrorField and, for observed writes, by a notice receiver.
#
# Caught here: a field left out; a quoted identifier where the bare name belongs; numbers in the message only, or the
# two tokens the wrong way round; a WARNING with another SQLSTATE; an error that comes as one of its inner statements.
use strict;
use warnings;

use FencingSession;
use FencingTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fencing_node('main');
$node->append_conf('postgresql.conf', "log_statement = none\n");
$node->start;
$node->safe_psql('postgres', <<'SQL');
CREATE EXTENSION fencing;
CREATE TABLE account (id int PRIMARY KEY, balance int, fence_token bigint);
CREATE TABLE watched (id int PRIMARY KEY, balance int, fence_token bigint);
CREATE SCHEMA "Odd schema";
CREATE TABLE "Odd schema"."odd ""table" (id int PRIMARY KEY, "odd token" bigint);
INSERT INTO account VALUES (1, 100, 34);
INSERT INTO watched VALUES (1, 100, 34);
INSERT INTO "Odd schema"."odd ""table" VALUES (1, 34);
SELECT fencing.protect('account', 'fence_token');
SELECT fencing.protect('watched', 'fence_token', mode => 'observe');
SELECT fencing.protect('"Odd schema"."odd ""table"', 'odd token');
SELECT fencing.advance('job-1', 34);
SELECT fencing.next_token();
SELECT fencing.acquire('job-3', '1 hour', 'worker 2');
SQL
my $program = compile_libpq('error_fields');

# fields_of($statements, ...): the blocks that the program prints, as hashes.
sub fields_of
{
	my @statements = @_;
	my ($out, $err) = run_command([$program, $node->connstr('postgres'), @statements]);
	is($err, '', 'the program ran');
	my @blocks;
	foreach my $block (split /\n\n/, $out)
	{
		my ($head, @lines) = split /\n/, $block;
		my ($kind, $number) = split / /, $head;
		my %fields = (kind => $kind, number => $number);
		my $name;
		foreach (@lines)
		{
			if (/^([a-z]+): (.*)/) { $name = $1; $fields{$name} = $2; }
			else { $fields{$name} .= "\n$_"; }    # of a context
		}
		push @blocks, \%fields;
	}
	return @blocks;
}

# Each expected field is a string, or a pattern; undef means that it must not be there.
sub check
{
	my ($name, $got, %expected) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	foreach my $field (sort keys %expected)
	{
		my $value = $expected{$field};
		if (ref $value) { like($got->{$field}, $value, "$name: $field"); }
		else { is($got->{$field}, $value, "$name: $field"); }
	}
	return;
}

my %of_account = (schema => 'public', table => 'account', column => 'fence_token', constraint => 'zz_fencing_guard',
	datatype => undef);
my $something = qr/\S.*\.$/;    # details and hints are sentences

my @cases = (
	['stale UPDATE', 'UPDATE account SET balance = 1, fence_token = 33 WHERE id = 1', %of_account,
		severity => 'ERROR', sqlstate => 'TK001', message => 'stale fencing token for table "account"',
		detail => 'Presented token 33, current token 34.', hint => $something],
	['stale DELETE', 'BEGIN; SET LOCAL fencing.token = 33; DELETE FROM account; COMMIT', %of_account,
		severity => 'ERROR', sqlstate => 'TK001', message => 'stale fencing token for table "account"',
		detail => 'Presented token 33, current token 34.', hint => $something],
	['end of the transaction', 'ROLLBACK'],
	['UPDATE without a token', 'UPDATE account SET balance = 1 WHERE id = 1', %of_account,
		severity => 'ERROR', sqlstate => 'TK002', message => 'write to table "account" carries no fencing token',
		detail => $something, hint => $something],
	['INSERT without a token', 'INSERT INTO account VALUES (2, 1, NULL)', %of_account,
		severity => 'ERROR', sqlstate => 'TK002', message => 'write to table "account" carries no fencing token',
			hint => $something],
	['DELETE without a token', 'DELETE FROM account', %of_account,
		severity => 'ERROR', sqlstate => 'TK002', message => 'write to table "account" carries no fencing token',
			hint => $something],
	['TRUNCATE without a token', 'TRUNCATE account',
		severity => 'ERROR', sqlstate => 'TK002', message => 'TRUNCATE of table "account" carries no fencing token',
			hint => $something,
		schema => 'public', table => 'account', constraint => 'zz_fencing_guard_truncate'],
	['odd names', 'UPDATE "Odd schema"."odd ""table" SET "odd token" = 33',
		severity => 'ERROR', sqlstate => 'TK001', detail => 'Presented token 33, current token 34.', hint => $something,
		message => 'stale fencing token for table "odd "table"',
		schema => 'Odd schema', table => 'odd "table', column => 'odd token', constraint => 'zz_fencing_guard'],
	['stale advance', q(SELECT fencing.advance('job-1', 33)),
		severity => 'ERROR', sqlstate => 'TK001', message => 'stale fencing token for resource "job-1"',
		detail => 'Presented token 33, current token 34.', hint => $something, schema => undef, table => undef,
			column => undef, constraint => undef],
	['acquire with a bad time to live', q(SELECT fencing.acquire('job-2', '0')),
		severity => 'ERROR', sqlstate => '22023', message => qr/\S/, context => undef],
	['acquire without a resource', 'SELECT fencing.acquire(NULL)',
		severity => 'ERROR', sqlstate => '22004', message => qr/\S/, context => undef],
	['acquire of a resource issued elsewhere', q(SELECT fencing.acquire('job-1')),
		severity => 'ERROR', sqlstate => '55000', message => qr/job-1/, hint => $something, context => undef],
	['a negative token', 'UPDATE account SET fence_token = -1', severity => 'ERROR', sqlstate => '22023', message => qr/\S/],
	['stale bind', q(SELECT fencing.bind('job-1', 33)),
		severity => 'ERROR', sqlstate => 'TK001', message => 'stale fencing token for resource "job-1"',
		detail => 'Presented token 33, current token 34.', hint => $something, context => undef],
	['stale bind of a resource granted here', q(SELECT fencing.bind('job-3', 1)),
		severity => 'ERROR', sqlstate => 'TK001', message => 'stale fencing token for resource "job-3"',
		detail => qr/^Presented token 1, current token \d+, granted to "worker 2" at \S.*\.$/, hint => $something,
			context => undef],
	['unissued bind', q(SELECT fencing.bind('job-2', 34)),
		severity => 'ERROR', sqlstate => 'TK003', message => qr/job-2/, detail => $something, hint => $something,
			context => undef]);
my @blocks = fields_of(map { $_->[1] } @cases);
is(scalar(grep { $_->{kind} eq 'notice' } @blocks), 0, 'refusals come without warnings');
my %block_of = map { $_->{number} => $_ } @blocks;
foreach my $number (1 .. @cases)
{
	my ($name, $statement, %expected) = @{ $cases[$number - 1] };
	is(defined $block_of{$number}, !!%expected, "$name: " . (%expected ? 'an error' : 'no error'));
	check($name, $block_of{$number} || {}, %expected) if %expected;
}

# Observed writes: the same fields in a WARNING, and the write passes.
my %of_watched = (kind => 'notice', severity => 'WARNING', schema => 'public', table => 'watched', column => 'fence_token',
	constraint => 'zz_fencing_guard');
my @observed = fields_of('UPDATE watched SET balance = 1, fence_token = 33 WHERE id = 1',
	'UPDATE watched SET balance = 2 WHERE id = 1', 'TRUNCATE watched',
	'SET fencing.enforcement = observe', 'UPDATE account SET balance = 1, fence_token = 33 WHERE id = 1', 'DELETE FROM account');
is(scalar(@observed), 5, 'observe: one warning for each row or statement that would be refused');
check('observed stale UPDATE', $observed[0], %of_watched, sqlstate => 'TK001',
	message => 'stale fencing token for table "watched"',
	detail => 'Presented token 33, current token 34.', hint => $something);
check('observed UPDATE without a token', $observed[1], %of_watched, sqlstate => 'TK002',
	message => 'write to table "watched" carries no fencing token', hint => $something);
check('observed TRUNCATE', $observed[2], kind => 'notice', severity => 'WARNING', sqlstate => 'TK002',
	message => 'TRUNCATE of table "watched" carries no fencing token', schema => 'public', table => 'watched',
		constraint => 'zz_fencing_guard_truncate');
check('enforcement = observe', $observed[3], %of_account, kind => 'notice', severity => 'WARNING', sqlstate => 'TK001',
	message => 'stale fencing token for table "account"', detail => 'Presented token 33, current token 34.', hint => $something);
check('enforcement = observe, DELETE', $observed[4], %of_account, kind => 'notice', severity => 'WARNING', sqlstate => 'TK002');
is($node->safe_psql('postgres', 'SELECT (SELECT count(*) FROM watched), (SELECT count(*) FROM account)'), '0|0',
	'and all of it was written');

done_testing();
