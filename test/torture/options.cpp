// SPDX-License-Identifier: PostgreSQL
// options.cpp: the command line of a worker.

#include "options.h"

#include <cstdio>
#include <cstdlib>
#include <getopt.h>

namespace torture {

namespace {

const char *const usage =
	"usage: torture-worker --conninfo CONNINFO --id N --seed N --seconds S --history FILE\n"
	"                      [--no-prepared] [--pooled] [--draws PERCENT] [--pause-ms N]\n"
	"  --no-prepared  the server does not allow PREPARE TRANSACTION\n"
	"  --pooled       behind a pooler: each transaction may run in another backend\n"
	"  --draws        percent of the rounds that only draw tokens (10)\n"
	"  --pause-ms     the longest of the usual pauses (100)\n";

[[noreturn]] void
complain()
{
	std::fputs(usage, stderr);
	std::exit(2);
}

std::uint64_t
number(const char *text)
{
	char *end;
	std::uint64_t value = std::strtoull(text, &end, 10);

	if (*text == '\0' || *end != '\0')
		complain();
	return value;
}

} // namespace

Options
options_of(int argc, char **argv)
{
	const option list[] = {{"conninfo", required_argument, nullptr, 'c'},
		{"id", required_argument, nullptr, 'i'}, {"seed", required_argument, nullptr, 's'},
		{"seconds", required_argument, nullptr, 't'}, {"history", required_argument, nullptr, 'h'},
		{"no-prepared", no_argument, nullptr, 'n'}, {"pooled", no_argument, nullptr, 'p'},
		{"draws", required_argument, nullptr, 'd'}, {"pause-ms", required_argument, nullptr, 'm'},
		{nullptr, 0, nullptr, 0}};
	Options options;
	int letter;

	while ((letter = getopt_long(argc, argv, "", list, nullptr)) != -1) {
		switch (letter) {
		case 'c':
			options.conninfo = optarg;
			break;
		case 'i':
			options.id = static_cast<int>(number(optarg));
			break;
		case 's':
			options.seed = number(optarg);
			break;
		case 't':
			options.seconds = static_cast<int>(number(optarg));
			break;
		case 'h':
			options.history = optarg;
			break;
		case 'n':
			options.prepared = false;
			break;
		case 'p':
			options.pooled = true;
			break;
		case 'd':
			options.draws = static_cast<int>(number(optarg));
			break;
		case 'm':
			options.pause_ms = static_cast<int>(number(optarg));
			break;
		default:
			complain();
		}
	}
	if (optind != argc || options.conninfo.empty() || options.history.empty() || options.id == 0)
		complain();
	return options;
}

} // namespace torture
