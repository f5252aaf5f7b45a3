# docs/recipes/jdbc does what its page says.
#
# Finds: a late write that passes; a worker that does not stop when its lease is lost, retries a refusal, or does not
# retry a serialisation failure; a trap of the driver or of the pool that is not as the page tells it.
use strict;
use warnings;

use FencingRecipe;
use FencingSession;
use PostgreSQL::Test::Utils;
use Test::More;

# Debian's packages.
my $libraries = join ':', map { "/usr/share/java/$_.jar" } qw(postgresql HikariCP slf4j-api slf4j-nop);
# One core for the compiler and the collector: these programs are short.
my @java = qw(-Xshare:auto -XX:TieredStopAtLevel=1 -XX:+UseSerialGC);

sub compile
{
	my ($folder, $class, $source) = @_;
	system_or_bail('javac', '-Xlint:all', '-Werror', '-cp', $libraries, '-d', $folder, $source);
	return ('java', @java, '-cp', "$libraries:$folder", $class);
}

my $recipe = FencingRecipe->new('jdbc',
	build => sub { my ($folder) = @_; return compile($folder, 'Worker', "$folder/Worker.java"); });
$recipe->check;
$recipe->check_hanging_heartbeat;

$recipe->{db}->get(<<'SQL');
CREATE TABLE entry (name text, line int, fence_token bigint, PRIMARY KEY (name, line));
SELECT fencing.protect('entry', 'fence_token', resource => '{name}');
GRANT SELECT, INSERT ON entry TO worker;
SQL
# The hints of the server.
my $each_alone = 'fencing.bind() the resource or SET LOCAL fencing.token in the transaction that writes:'
  . ' in autocommit each statement is one of its own.';
my $only_local = 'The setting fencing.token counts only in the transaction that sets it:'
  . ' BEGIN; SET LOCAL fencing.token = ...; the write; COMMIT.';
$recipe->check_traps(
	[ compile(PostgreSQL::Test::Utils::tempdir(), 'Traps', tree_root() . '/test/recipes/jdbc/Traps.java') ],
	[ 'SET LOCAL in autocommit', "warning 25P01, TK002 $each_alone, nothing",
		'SET LOCAL in autocommit does nothing; the write is refused' ],
	[ 'bind in autocommit', "TK002 $each_alone, nothing", 'bind in autocommit is a transaction of its own' ],
	[ 'one statement', 'passed, x', 'one statement that binds and writes will do in autocommit' ],
	[ 'open grant', 'seen 0, after commit 1', 'with autocommit off, a grant is open until commit()' ],
	[ 'classes', 'PSQLException 40001 PSQLException TK001', 'the class of an error says nothing, its SQLSTATE does' ],
	[ 'pooled SET', "TK002 $only_local, there for the next true, TK002",
		'a SET without LOCAL stays on the pooled connection, and counts for nobody' ],
	[ 'pooled bind', 'bound 1, same server true, then 0', 'an open transaction that goes back to the pool is ended' ],
	[ 'batch', 'TK001 and TK001, [-3, -3, -3], rows 0',
		'a batch with one stale row: BatchUpdateException with the SQLSTATE of the refusal' ],
	[ 'batch in autocommit', 'TK001 and TK001, [-3, -3, -3], rows 0',
		'in autocommit as well, and nothing of a short batch is left' ],
	[ 'long batch in autocommit', 'TK001, some rows true', 'but of a long one that the driver has cut' ],
	[ 'rewritten batch', 'TK001 and TK001, [-3, -3, -3], rows 0', 'with reWriteBatchedInserts as well' ],
	[ 'bound batch', '[1, 1, 1], stamped 3', 'a batch in a bound transaction' ],
	[ 'bound rewritten batch', '[-2, -2, 1], stamped 3',
		'the same, rewritten: its counts are unknown, each row is stamped' ],
	[ 'prepared', '2 prepared, TK001', 'a bind that the server keeps prepared asks anew each time' ],
	[ 'commit', 'TK001, nothing', 'commit() can be refused; nothing is written then' ],
	[ 'swallowed', 'TK001, next statement 25P02, commit passed, log lines 0',
		'commit() after a refusal that was caught rolls back without a word' ],
	[ 'autosave', 'TK001, next statement passed, commit passed, log lines 1',
		'with autosave=always such a program commits the rest' ]);

done_testing();
