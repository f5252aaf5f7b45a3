# FencingNode: programs for node in a copy of their recipe, beside the packages that test/recipes/run has fetched.
package FencingNode;

use strict;
use warnings;

use Exporter 'import';
use FencingSession;
use File::Copy qw(copy);

our @EXPORT = qw(node_program);

# The first argument of the test.
my $modules = $ARGV[0];

# node_program($folder, $file): the command that runs it. What the recipe does not have is a program of test/recipes.
sub node_program
{
	my ($folder, $file) = @_;
	if (!-e "$folder/$file")
	{
		copy(tree_root() . "/test/recipes/$file", $folder) or die "could not copy $file: $!";
	}
	if (!-e "$folder/node_modules")
	{
		symlink $modules, "$folder/node_modules" or die "could not link to the packages: $!";
	}
	return ('node', "$folder/$file");
}

1;
