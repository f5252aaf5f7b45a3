// SPDX-License-Identifier: PostgreSQL
// client.h: one connection to a lock service. What fails ends the program by an exception: a rate
// over errors says nothing.
#pragma once

#include <memory>
#include <string>

class Client {
public:
	virtual ~Client() = default;

	// Once, before the load: what the grants of resources 0 to count - 1 need to find.
	virtual void prepare(int count) = 0;

	// Ask for a resource; true when the answer says that it is granted, with a token of 1 or more.
	virtual bool grant(int number) = 0;
};

// The address is what bench/workloads/services.py gave the server: a socket's path or host:port.
std::unique_ptr<Client> redis_client(const std::string &address);
std::unique_ptr<Client> etcd_client(const std::string &address);
std::unique_ptr<Client> zookeeper_client(const std::string &address);

inline std::string
resource_name(int number)
{
	return "job-" + std::to_string(number);
}
