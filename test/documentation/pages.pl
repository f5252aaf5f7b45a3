# Every example of README.md and docs/*.md is run as it stands, and prints what the page says (FencingPage.pm says how
# a page is read). Each page has a database of its own, whose owner is no superuser.
#
# Finds: an example that fails, prints something else, or has another SQLSTATE than it says; one that is never run.
use strict;
use warnings;

use FencingPage;
use FencingSession;
use FencingTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fencing_node('pages');
$node->append_conf('postgresql.conf', preload_conf() . <<'CONF');
max_prepared_transactions = 2
TimeZone = 'UTC'
log_line_prefix = '%m [%p] %q%d %u %e '
CONF
$node->start;
$node->safe_psql('postgres', "CREATE ROLE $_ LOGIN") foreach qw(owner worker app_owner);
# So that a page can begin where a newcomer does. Before 15 anybody may create tables in schema public.
$node->safe_psql('postgres', 'ALTER ROLE owner CREATEDB; GRANT app_owner TO owner');

$node->safe_psql('postgres', 'CREATE DATABASE wrong OWNER owner');
# What the run of a page finds: each of these is wrong in one way, and nothing else.
my @wrong = (
	[ 'a value', "```sql\nSELECT 1;   --> 2\n```\n", qr/returns '1' instead of '2'/ ],
	[ 'a row too many', "```sql\nSELECT 1 WHERE false;   --> 1\n```\n", qr/returns ''/ ],
	[ 'a row where there is none', "```sql\nSELECT 1;   --> (no row)\n```\n", qr/returns '1'/ ],
	[ 'a statement that fails', "```sql\nSELECT 1/0;\n```\n", qr/fails with 22012/ ],
	[ 'an error that does not come', "```sql\nSELECT 1;   --> ERROR 22012\n```\n", qr/SQLSTATE 00000 instead of 22012/ ],
	[ 'another SQLSTATE', "```sql\nSELECT 1/0;   --> ERROR 22013\n```\n", qr/SQLSTATE 22012 instead of 22013/ ],
	[ 'another message', "```sql\nSELECT 1/0;   --> ERROR 22012: division by one\n```\n", qr/another message/ ],
	[ 'another output', "```sql\nSELECT 1 AS one;\n```\n```\n one\n-----\n 2\n```\n", qr/prints\none/ ],
	[ 'another error output', "```sql\nSELECT 1/0;   --> ERROR 22012\n```\n```\nERROR:  zero\n```\n", qr/instead of\nERROR: zero/ ],
	[ 'an output without SQLSTATE', "```sql\nSELECT 1/0;\n```\n```\nERROR:  division by zero\n```\n", qr/22012/ ],
	[ 'a warning that is not shown', "```sql\nCOMMIT;\n```\n", qr/WARNING/ ],
	[ 'an output of nothing', "text\n```\nERROR:  division by zero\n```\n", qr/follows no block/ ],
	[ 'a shell command that fails', "```sh\nfalse\n```\n", qr/status 1/ ],
	[ 'a setup that fails', "<!-- setup\nSELECT 1/0;\n-->\n", qr/division/ ],
	[ 'a second session that does not see it', "```sql\nBEGIN;\nCREATE TEMP TABLE t ();\n```\n<!-- session two as owner -->\n```sql\nTABLE t;\n```\n", qr/42P01/ ]);
foreach my $case (@wrong)
{
	my ($what, $text, $found) = @$case;
	my $page = FencingPage->new($node, database => 'wrong', owner => 'owner', folder => PostgreSQL::Test::Utils::tempdir());
	my @trouble;
	$page->run($text, sub { push @trouble, $_[1] if $_[1] ne '' });
	ok(@trouble == 1 && $trouble[0] =~ $found, "found: $what") or diag("@trouble");
}
ok(!eval { FencingPage::read_page("<!-- sesion one as owner -->\n"); 1 }, 'found: a misspelt mark');

my $root = tree_root();
my @pages = ('README.md', map { "docs/$_" } sort map { s{.*/}{}r } glob "$root/docs/*.md");
foreach my $file (@pages)
{
	my $database = lc($file =~ s{.*/|\.md$}{}gr) =~ tr/-/_/r;
	$node->safe_psql('postgres', "CREATE DATABASE $database OWNER owner");
	my $page = FencingPage->new($node, database => $database, owner => 'owner', folder => PostgreSQL::Test::Utils::tempdir());
	my %count = $page->run(slurp_file("$root/$file"),
		sub {
			my ($what, $trouble) = @_;
			is($trouble, '', "$file, $what");
		});
	note("$file: " . join ', ', map { "$count{$_} $_" } sort keys %count);
	# A parser that finds nothing would find everything right.
	my $blocks = () = slurp_file("$root/$file") =~ /^```sql$/mg;
	is($count{sql} // 0, $blocks, "$file: every one of its $blocks blocks of SQL is run");
}

# What the pages point to is there: files and headings.
sub anchors
{
	my ($text) = @_;
	$text =~ s/^```.*?^```//gms;
	my %anchors;
	while ($text =~ /^#+ (.*)$/mg)
	{
		my $anchor = lc $1 =~ s/[^\w\s-]//gr;
		$anchors{ $anchor =~ s/ /-/gr } = 1;
	}
	return \%anchors;
}

# A word in code that is the path of a file of the tree, with * for several; "..._x.spec" is short for a file named before.
foreach my $page (@pages)
{
	my $text = slurp_file("$root/$page");
	my $folder = "$root/" . ($page =~ m{^(.*/)} ? $1 : '');
	my @missing;
	while ($text =~ /\]\(([^)\s]*)\)/g)
	{
		my ($file, $anchor) = $1 =~ /^([^#]*)#?(.*)$/;
		next if $file =~ /^https?:/;
		my $path = $file eq '' ? "$root/$page" : "$folder$file";
		if (!-e $path) { push @missing, $file; }
		elsif ($anchor ne '' && !anchors(slurp_file($path))->{$anchor}) { push @missing, "$file#$anchor"; }
	}
	while ($text =~ m{`((?:test|sql|src|docs|demo|bench|expected)/[\w./*-]+)`}g)
	{
		my $path = $1;
		push @missing, $path if !grep { -e } glob "$root/$path";
	}
	is("@missing", '', "$page: every file and heading that it names is there");
}

done_testing();
