# pooler.pl: the workers behind PgBouncer in transaction mode, six of them on three server connections. It is killed once,
# and with it every transaction that is under way; they come back and find out.
#
#     pooler.pl PROGRAMS SEED
use strict;
use warnings;

use FencingBouncer;
use FencingLoad;
use FencingTest;
use PostgreSQL::Test::Utils;
use Test::More;

my ($programs, $seed) = @ARGV;
$SIG{TERM} = sub { exit 143; };
my $node = fencing_node('main');
$node->append_conf('postgresql.conf', "log_statement = none\n");
$node->start;
$node->safe_psql('postgres', 'CREATE DATABASE torture');
FencingLoad::make_tables($node->connstr('torture'));
my $bouncer = FencingBouncer->new($node, databases => 'torture = CONNECTION dbname=torture pool_size=3');
my $load = FencingLoad->new(programs => $programs, directory => "$ENV{TMPDIR}/pooled", count => 6, seed => $seed,
	conninfo => $bouncer->connstr('torture'), options => [ '--pooled', '--no-prepared' ]);
$load->works_on(30, 'the workers work behind PgBouncer');
$load->fault('pooler killed', undef, sub { $bouncer->crash });
$load->works_on(30, '... and again, after its death');
$load->judge('workers behind PgBouncer', $node->connstr('torture'));

done_testing();
