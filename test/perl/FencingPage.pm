# FencingPage: a page of the documentation, run as it stands, for the test that keeps its examples true.
#
# A block ```sql is run statement by statement, in the order of the page, a block ```sh by bash. What a statement returns
# stands behind it, a line for each row (columns parted by |), or the whole output follows in a block without a language:
#
#     SELECT fencing.renew('job-1', 34);   --> (null)
#     SELECT * FROM nothing;               --> (no row)
#     UPDATE account SET balance = 0;      --> ERROR TK002: write to table "account" carries no fencing token
#
# An error is always shown with its SQLSTATE, with or without its message. Without any of these a statement must succeed.
# Times and PIDs are not compared, everything else is, tokens too.
#
# Marks are HTML comments, which no reader sees:
#
#     <!-- session NAME as ROLE -->    the blocks from here on run in this session; it begins where it is first named,
#                                      and has the name as its application_name
#     <!-- setup -->                   the lines up to the closing arrow are SQL, run by the owner of the database. With
#                                      "sh" behind the word, for bash
#     <!-- not run: REASON -->         the next block is not run
package FencingPage;

use strict;
use warnings;

use FencingSession;
use File::Spec;
use IPC::Run;
use PostgreSQL::Test::Utils;

# A block without a language that stands behind no example is a figure, unless it looks like this.
my $looks_like_output = qr/^(?:ERROR|WARNING|NOTICE):|^-+\+-/m;

# read_page($text): the steps of a page, in order: { kind, text, line, ... }. Dies when a mark is not known.
sub read_page
{
	my ($text) = @_;
	my (@steps, $not_run, $follows);
	my $line = 1;
	while ($text =~ /\G(?:<!--\s*(.*?)\s*-->|^```([^\n]*)\n(.*?)^```[^\n]*$|([^\n]*)(?:\n|\z))/gmsc)
	{
		my ($mark, $language, $code, $place) = ($1, $2, $3, $line);
		$line += $& =~ tr/\n//;
		if (defined $mark)
		{
			if ($mark =~ /^session (.+) as (\w+)$/) { push @steps, { kind => 'session', name => $1, role => $2, line => $place }; }
			elsif ($mark =~ /^session (.+)$/) { push @steps, { kind => 'session', name => $1, line => $place }; }
			elsif ($mark =~ /^setup sh\s(.*)$/s) { push @steps, { kind => 'setup sh', text => $1, line => $place }; }
			elsif ($mark =~ /^setup\s(.*)$/s) { push @steps, { kind => 'setup', text => $1, line => $place }; }
			elsif ($mark =~ /^not run: \S/) { $not_run = 1; }
			else { die "line $place: nobody knows the mark '$mark'\n"; }
		}
		elsif (defined $language)
		{
			my $kind = $language ne '' ? $language : $follows || $code =~ /$looks_like_output/ ? 'output' : 'figure';
			$kind = 'not run' if $not_run;
			push @steps, { kind => $kind, language => $language, text => $code, line => $place + 1 };
			$not_run = 0;
			$follows = 1;
		}
		elsif ($& =~ /\S/) { $follows = 0; }
		last if pos($text) >= length $text;
	}
	die "a mark says 'not run', and no block follows\n" if $not_run;
	return @steps;
}

# statements($code, $line): the statements of a block: { sql, line, expected => [lines] }.
sub statements
{
	my ($code, $line) = @_;
	my ($sql, @found) = ('');
	while ($code =~ /\G(--[^\n]*|'(?:[^']|'')*'|\$\$.*?\$\$|"[^"]*"|\([^()'"\$]*\)|;|.)/gs)
	{
		my $piece = $1;
		if ($piece eq ';')
		{
			my $leading = $sql =~ /^(\s*)/ ? $1 =~ tr/\n// : 0;
			push @found, { sql => $sql =~ s/^\s+//r, line => $line - ($sql =~ tr/\n//) + $leading, expected => [] };
			$sql = '';
		}
		elsif ($piece =~ /^-->\s*(.*?)\s*$/)
		{
			@found && $sql !~ /\S/ or die "line $line: '$piece' stands behind no statement\n";
			push @{ $found[-1]{expected} }, $1;
		}
		elsif ($piece !~ /^--/)
		{
			$sql .= $piece;
		}
		$line += $piece =~ tr/\n//;
	}
	die "line $line: a statement has no end: $sql\n" if $sql =~ /\S/;
	return @found;
}

# What differs from run to run, and how wide psql makes its columns for that.
sub normal
{
	my ($text) = @_;
	$text =~ s/\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?[+-]\d\d(?::\d\d)?/TIME/g;
	$text =~ s/\b\d\d:\d\d:\d\d\.\d+\b/SPAN/g;
	$text =~ s/\bPID \d+/PID N/g;
	$text =~ s/^psql:[^:\n]*:\d+: //mg;
	$text =~ s/-{2,}/-/g;
	$text =~ s/[ \t]+/ /g;
	$text =~ s/ $//mg;
	$text =~ s/^\s+|\s+$//g;
	return $text;
}

# new($node, database => NAME, owner => ROLE, folder => FOLDER)
sub new
{
	my ($class, $node, %options) = @_;
	return bless { node => $node, sessions => {}, %options }, $class;
}

sub session
{
	my ($self, $name, $role) = @_;
	my $session = $self->{sessions}{$name};
	if (!$session)
	{
		my $user = defined $role ? $role : $self->{owner};
		$session = FencingSession->new($self->{node}, dbname => $self->{database}, $user eq 'superuser' ? () : (user => $user));
		$session->get("\\pset null (null)\nSET application_name = '$name'");
		$self->{sessions}{$name} = $session;
	}
	return $session;
}

# run_statement($session, $statement, $output): what is wrong, '' when nothing is. $output is the block that follows.
sub run_statement
{
	my ($self, $session, $statement, $output) = @_;
	my $aligned = defined $output && $output !~ /^(?:ERROR|WARNING|NOTICE):/;
	my ($on, $off) = $aligned ? ("\\pset format aligned\n\\pset tuples_only off\n", "\n;\\pset format unaligned\n\\pset tuples_only on\n") : ('', '');
	my $rows = $session->ask("$on$statement->{sql}");
	my ($state, $errors) = ($session->sqlstate, normal($session->errors));
	$session->ask("${off}SELECT 1") if $aligned;
	my @expected = @{ $statement->{expected} };
	my ($error) = grep { /^ERROR / } @expected;
	if (defined $error)
	{
		my ($wanted, $message) = $error =~ /^ERROR (\w{5})(?:: (.*))?$/ or return "not of the form 'ERROR SQLSTATE: message': $error";
		return "SQLSTATE $state instead of $wanted: $errors" if $state ne $wanted;
		return "another message: $errors" if defined $message && $errors !~ /^ERROR: \Q@{[normal($message)]}\E$/m;
	}
	elsif ($state ne '00000')
	{
		return "fails with $state: $errors";
	}
	elsif (@expected)
	{
		my $shown = normal(join "\n", map { $_ eq '(no row)' ? '' : $_ } @expected);
		return "returns '$rows' instead of '$shown'" if normal($rows) ne $shown;
	}
	if (defined $output)
	{
		my $shown = normal($output);
		return 'an error is shown without its SQLSTATE' if $shown =~ /^ERROR:/m && !defined $error;
		my $got = normal("$errors\n$rows");
		$got =~ s/\s*^\(\d+ rows?\)\z//m if $shown !~ /^\(\d+ rows?\)\z/m;
		return "prints\n$got\ninstead of\n$shown" if $got ne $shown;
	}
	elsif (!defined $error && $errors ne '')
	{
		return "prints, and the page does not say so: $errors";
	}
	return '';
}

sub run_shell
{
	my ($self, $code, $output) = @_;
	my $text = '';
	local %ENV = (%ENV, PGHOST => $self->{node}->host, PGPORT => $self->{node}->port, PGDATABASE => $self->{database}, PGUSER => $self->{owner},
		SERVER_LOG => File::Spec->rel2abs($self->{node}->logfile));
	my $ended = IPC::Run::run(['bash', '-e', '-o', 'pipefail', '-c', "cd '$self->{folder}'\n$code"], '>', \$text, '2>', \$text,
		IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	return "ends with status " . ($? >> 8) . ": $text" if !$ended;
	return "prints\n$text\ninstead of\n$output" if defined $output && normal($text) ne normal($output);
	return '';
}

# run($text, $report): run the page; $report->($what, $trouble) for each step that was run. Returns how many steps of
# each kind the page has.
sub run
{
	my ($self, $text, $report) = @_;
	my @steps = read_page($text);
	my %count;
	my ($name, $role) = ('owner', $self->{owner});
	while (my $step = shift @steps)
	{
		my $kind = $step->{kind};
		$count{$kind}++;
		if ($kind eq 'session') { ($name, $role) = @$step{qw(name role)}; }
		elsif ($kind eq 'setup')
		{
			my $trouble = $self->session('setup')->state_of($step->{text}) eq '00000' ? '' : $self->session('setup')->errors;
			$report->("line $step->{line}: setup", $trouble) if $trouble ne '';
		}
		elsif ($kind eq 'setup sh')
		{
			my $trouble = $self->run_shell($step->{text});
			$report->("line $step->{line}: setup", $trouble) if $trouble ne '';
		}
		elsif ($kind eq 'sql' || $kind eq 'sh')
		{
			my $output = @steps && $steps[0]{kind} eq 'output' ? (shift @steps)->{text} : undef;
			$count{output}++ if defined $output;
			if ($kind eq 'sh')
			{
				$report->("line $step->{line}: " . $step->{text} =~ s/\n.*//sr, $self->run_shell($step->{text}, $output));
				next;
			}
			my @statements = statements($step->{text}, $step->{line});
			foreach my $statement (@statements)
			{
				my $last = $statement == $statements[-1];
				my $trouble = $self->run_statement($self->session($name, $role), $statement, $last ? $output : undef);
				$report->("line $statement->{line}: " . substr($statement->{sql} =~ s/\s+/ /gr, 0, 70), $trouble);
			}
		}
		elsif ($kind eq 'output')
		{
			$report->("line $step->{line}", 'an output follows no block that is run');
		}
	}
	$_->close foreach values %{ $self->{sessions} };
	return %count;
}

1;
