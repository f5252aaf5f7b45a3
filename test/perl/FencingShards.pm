# FencingShards: servers that stand for machines: shards with the extension, and a router without it.
package FencingShards;

use strict;
use warnings;

use Exporter 'import';
use FencingSession;
use FencingTest;
use PostgreSQL::Test::Utils;

our @EXPORT = qw(run_file start_node);

# run_file($node, $file, %variables): a file of the tree, as psql runs it, into database postgres.
sub run_file
{
	my ($node, $file, %variables) = @_;
	my @set = map { ('-v', "$_=$variables{$_}") } sort keys %variables;
	my $output;
	my $path = tree_root() . "/$file";
	IPC::Run::run(['psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', @set, '-d', $node->connstr('postgres'), '-f', $path],
		'>', \$output, '2>&1') or die "$file: $output\n";
	return;
}

sub start_node
{
	my ($name, $conf) = @_;
	my $node = fencing_node($name);
	$node->append_conf('postgresql.conf', $conf // '');
	$node->start;
	$node->safe_psql('postgres', 'CREATE ROLE worker LOGIN');
	return $node;
}

1;
