# FencingExample: an example of docs/examples with and without the lines that fence it, and its programs as processes that
# a test stops, wakes and kills by their pids.
package FencingExample;

use strict;
use warnings;

use Cwd qw(realpath);
use Exporter 'import';
use FencingSession;
use IO::Select;
use IPC::Open3 qw(open3);
use PostgreSQL::Test::Utils;

our @EXPORT = qw(example_copy example_database page_trouble start_program);

my @programs;

# example_copy($name, @marks): a copy of docs/examples/NAME in which the lines that end in a comment of one of these words
# ("fencing") are missing. Dies where a word takes nothing out.
sub example_copy
{
	my ($name, @marks) = @_;
	my $folder = realpath(PostgreSQL::Test::Utils::tempdir());
	my %taken = map { $_ => 0 } @marks;
	foreach my $file (grep { -f } glob tree_root() . "/docs/examples/$name/*")
	{
		my $text = slurp_file($file);
		foreach my $mark (@marks)
		{
			$taken{$mark} += $text =~ s/^.*(?:--|#|\/\/) \Q$mark\E\n//mg;
		}
		append_to_file("$folder/" . $file =~ s{.*/}{}r, $text);
	}
	$taken{$_} or die "no line of $name is marked '$_'\n" foreach @marks;
	return $folder;
}

# page_trouble($name, @languages): what is wrong with docs/examples/NAME.md, one item for each: a file that it names and that
# is not there, a file of the example that it does not name, a line of a block in one of these languages that stands in no
# file of the example. '' when nothing is.
sub page_trouble
{
	my ($name, @languages) = @_;
	my $folder = tree_root() . '/docs/examples';
	my $page = slurp_file("$folder/$name.md");
	my @trouble = map { -e "$folder/$_" ? () : "there is no $_" } $page =~ /\]\(([^)#\s]+)\)/g;
	my @files = map { s{^\Q$folder\E/}{}r } grep { -f } glob "$folder/$name/*";
	push @trouble, map { index($page, s{.*/}{}r) < 0 ? "it does not name $_" : () } @files;
	my $code = join '', map { slurp_file("$folder/$_") } @files;
	my $wanted = join '|', @languages, 'no language';
	while ($page =~ /^```(?:$wanted)\n(.*?)^```/gms)
	{
		push @trouble, map { $code =~ /^\s*\Q$_\E\s*(?:(?:--|#|\/\/) .*)?$/m ? () : "no file has: $_" } split /\n/, $1;
	}
	return join '; ', @trouble;
}

# example_database($node, $database, $file...): a database of an owner who is no superuser, with these files run by him.
sub example_database
{
	my ($node, $database, @files) = @_;
	$node->safe_psql('postgres', "CREATE DATABASE $database OWNER owner");
	my $owner = FencingSession->new($node, dbname => $database, user => 'owner');
	$owner->get('CREATE EXTENSION fencing');
	$owner->get(slurp_file($_)) foreach @files;
	return $owner;
}

# start_program(\%environment, @command): a process whose standard input and output the test holds.
sub start_program
{
	my ($environment, @command) = @_;
	local %ENV = (%ENV, %$environment);
	my $pid = open3(my $in, my $out, '>&STDERR', @command);
	$in->autoflush(1);
	my $program = bless { pid => $pid, in => $in, out => $out, text => '' }, __PACKAGE__;
	push @programs, $program;
	return $program;
}

sub pid { return $_[0]->{pid}; }

# What has come so far, waiting for at most so many seconds for more; false at the end of the output.
sub read_more
{
	my ($self, $seconds) = @_;
	return 1 if !IO::Select->new($self->{out})->can_read($seconds);
	return sysread $self->{out}, $self->{text}, 65536, length $self->{text};
}

# The next line that it prints; '' when none comes.
sub line
{
	my ($self) = @_;
	until_true(sub { $self->{text} =~ /\n/ || !$self->read_more(0.05) }, 60);
	return $self->{text} =~ s/^([^\n]*)\n// ? $1 : '';
}

# The lines that have come, without waiting.
sub lines
{
	my ($self) = @_;
	$self->read_more(0);
	my @lines;
	push @lines, $1 while $self->{text} =~ s/^([^\n]*)\n//;
	return @lines;
}

sub tell
{
	my ($self, $text) = @_;
	print { $self->{in} } "$text\n";
	return;
}

sub stop { stop_process($_[0]->{pid}); return; }

sub wake { kill 'CONT', $_[0]->{pid}; return; }

# kill -9; returns when it is gone.
sub end
{
	my ($self) = @_;
	return if !defined $self->{pid};
	kill 'KILL', $self->{pid};
	waitpid $self->{pid}, 0;
	delete $self->{pid};
	return;
}

END
{
	my $status = $?;
	$_->end foreach @programs;
	$? = $status;
}

1;
