// SPDX-License-Identifier: PostgreSQL
// options.h: what a worker was told on its command line.
#pragma once

#include <cstdint>
#include <string>

namespace torture {

struct Options {
	std::string conninfo;
	std::string history;
	int id = 0;
	std::uint64_t seed = 0;
	int seconds = 10;
	bool prepared = true; // the server allows prepared transactions
	bool pooled = false;  // behind a pooler another backend may serve each transaction
	int draws = 10;       // percent of the rounds that only draw tokens
	int pause_ms = 100;   // the longest of the usual pauses
};

// Exits with a usage message when something is wrong.
Options options_of(int argc, char **argv);

} // namespace torture
