// SPDX-License-Identifier: PostgreSQL
// forwarder.cpp: stands between the workers and the server, and cuts connections: torture-forwarder.
//
// Usage: torture-forwarder PORTFILE. It listens on a free port of 127.0.0.1, writes its number to the
// file, and obeys the lines of its standard input; when that ends, so does it.
//
//     to PATH     new connections go to the server's socket at PATH; `to -`: they are refused
//     cut N       N connections are reset at once
//     commit N    the next N commits are passed on, and the connection is reset before the answer
//     half N      the next N commits are not passed on: the connection is reset instead
//
// Each is answered with a line that says how many connections it has cut since it began. One thread, one
// poll(). Small messages alone pass here, so writes that would block are left to block.

#include <algorithm>
#include <arpa/inet.h>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <vector>

namespace {

struct Pair {
	int client;
	int server;
	bool doomed; // reset it at the next byte of the server
};

struct Forwarder {
	int listener;
	std::string path; // of the server's socket
	std::vector<Pair> pairs;
	int commits = 0; // to cut behind
	int halves = 0;  // to cut before
	long done = 0;
};

[[noreturn]] void
fail(const char *what)
{
	std::perror(what);
	std::exit(2);
}

int
listen_somewhere(const char *portfile)
{
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	sockaddr_in address = {};
	socklen_t size = sizeof address;

	address.sin_family = AF_INET;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (listener < 0 || bind(listener, reinterpret_cast<sockaddr *>(&address), size) != 0 ||
		listen(listener, 100) != 0 ||
		getsockname(listener, reinterpret_cast<sockaddr *>(&address), &size) != 0)
		fail("listen");

	std::string part = std::string(portfile) + ".part";
	FILE *file = std::fopen(part.c_str(), "w");

	if (file == nullptr)
		fail(portfile);
	std::fprintf(file, "%d\n", ntohs(address.sin_port));
	std::fclose(file);
	if (std::rename(part.c_str(), portfile) != 0)
		fail(portfile);
	return listener;
}

int
connect_server(const std::string &path)
{
	sockaddr_un address = {};
	int server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	address.sun_family = AF_UNIX;
	std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
	if (server >= 0 && connect(server, reinterpret_cast<sockaddr *>(&address), sizeof address) == 0)
		return server;
	close(server);
	return -1;
}

// The client gets a reset and not a polite end.
void
cut(Pair &pair)
{
	linger hard = {1, 0};

	setsockopt(pair.client, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
	close(pair.client);
	close(pair.server);
	pair.client = -1;
}

void
finish(Pair &pair)
{
	close(pair.client);
	close(pair.server);
	pair.client = -1;
}

bool
pass(int to, const char *bytes, ssize_t size)
{
	while (size > 0) {
		ssize_t sent = send(to, bytes, static_cast<std::size_t>(size), MSG_NOSIGNAL);

		if (sent <= 0)
			return false;
		bytes += sent;
		size -= sent;
	}
	return true;
}

// Query messages of COMMIT, COMMIT PREPARED and PREPARE TRANSACTION.
bool
is_commit(const char *bytes, ssize_t size)
{
	std::string text(bytes, static_cast<std::size_t>(size));

	return size > 5 && text[0] == 'Q' &&
		(text.compare(5, 6, "COMMIT") == 0 || text.compare(5, 7, "PREPARE") == 0);
}

void
from_client(Forwarder &forwarder, Pair &pair)
{
	char bytes[65536];
	ssize_t size = read(pair.client, bytes, sizeof bytes);

	if (size <= 0)
		return finish(pair);
	if (is_commit(bytes, size)) {
		if (forwarder.halves > 0) {
			forwarder.halves--;
			forwarder.done++;
			return cut(pair);
		}
		if (forwarder.commits > 0) {
			forwarder.commits--;
			forwarder.done++;
			pair.doomed = true;
		}
	}
	if (!pass(pair.server, bytes, size))
		finish(pair);
}

void
from_server(Pair &pair)
{
	char bytes[65536];
	ssize_t size = read(pair.server, bytes, sizeof bytes);

	if (size <= 0)
		return finish(pair);
	if (pair.doomed)
		return cut(pair);
	if (!pass(pair.client, bytes, size))
		finish(pair);
}

void
accept_client(Forwarder &forwarder)
{
	int client = accept4(forwarder.listener, nullptr, nullptr, SOCK_CLOEXEC);

	if (client < 0)
		return;

	int server = connect_server(forwarder.path);

	if (server < 0)
		close(client);
	else
		forwarder.pairs.push_back({client, server, false});
}

void
obey(Forwarder &forwarder, const std::string &line)
{
	std::size_t space = line.find(' ');
	std::string word = line.substr(0, space);
	std::string rest = space == std::string::npos ? "" : line.substr(space + 1);

	if (word == "to") {
		forwarder.path = rest;
	} else if (word == "commit") {
		forwarder.commits = std::atoi(rest.c_str());
	} else if (word == "half") {
		forwarder.halves = std::atoi(rest.c_str());
	} else if (word == "cut") {
		int count = std::atoi(rest.c_str());

		for (Pair &pair : forwarder.pairs) {
			if (count-- <= 0)
				break;
			cut(pair);
			forwarder.done++;
		}
	}
	std::printf("%ld\n", forwarder.done);
	std::fflush(stdout);
}

// False at the end of the standard input.
bool
read_commands(Forwarder &forwarder)
{
	static std::string text;
	char bytes[4096];
	ssize_t size = read(STDIN_FILENO, bytes, sizeof bytes);
	std::size_t end;

	if (size <= 0)
		return false;
	text.append(bytes, static_cast<std::size_t>(size));
	while ((end = text.find('\n')) != std::string::npos) {
		obey(forwarder, text.substr(0, end));
		text.erase(0, end + 1);
	}
	return true;
}

void
serve(Forwarder &forwarder)
{
	for (;;) {
		std::vector<pollfd> fds = {{STDIN_FILENO, POLLIN, 0}, {forwarder.listener, POLLIN, 0}};

		for (const Pair &pair : forwarder.pairs) {
			fds.push_back({pair.client, POLLIN, 0});
			fds.push_back({pair.server, POLLIN, 0});
		}
		if (poll(fds.data(), fds.size(), -1) < 0)
			fail("poll");
		// The pairs before the commands: those change the list.
		for (std::size_t i = 0; i < forwarder.pairs.size(); i++) {
			Pair &pair = forwarder.pairs[i];

			if (fds[2 + 2 * i].revents != 0)
				from_client(forwarder, pair);
			if (pair.client >= 0 && fds[3 + 2 * i].revents != 0)
				from_server(pair);
		}
		if (fds[0].revents != 0 && !read_commands(forwarder))
			return;
		forwarder.pairs.erase(std::remove_if(forwarder.pairs.begin(), forwarder.pairs.end(),
								  [](const Pair &pair) { return pair.client < 0; }),
			forwarder.pairs.end());
		if (fds[1].revents != 0)
			accept_client(forwarder);
	}
}

} // namespace

int
main(int argc, char **argv)
{
	if (argc != 2) {
		std::fprintf(stderr, "usage: torture-forwarder PORTFILE\n");
		return 2;
	}
	std::signal(SIGPIPE, SIG_IGN);

	Forwarder forwarder;

	forwarder.path = "-";
	forwarder.listener = listen_somewhere(argv[1]);
	serve(forwarder);
	return 0;
}
