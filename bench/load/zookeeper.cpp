// SPDX-License-Identifier: PostgreSQL
// zookeeper.cpp: a lock by an ephemeral sequential node, which is granted while it is the first of
// its resource; the sequence number is the token.
//
// The node of the grant before goes in the same transaction, so that a grant costs one commit and a
// read: less than the lock recipe asks for, which deletes in a transaction of its own.
#include "client.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <vector>
#include <zookeeper/zookeeper.h>

namespace {

void
check(int status, const char *what)
{
	if (status != ZOK)
		throw std::runtime_error(std::string("zookeeper: ") + what + ": " + zerror(status));
}

class ZooKeeper : public Client {
public:
	explicit ZooKeeper(const std::string &address)
	{
		zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
		m_handle = zookeeper_init(address.c_str(), session_changed, 30000, nullptr, this, 0);
		if (!m_handle)
			throw std::runtime_error("zookeeper: cannot connect to " + address);
		std::unique_lock<std::mutex> lock(m_mutex);
		if (!m_changed.wait_for(lock, std::chrono::seconds(30), [this] { return m_connected; }))
			throw std::runtime_error("zookeeper: no session at " + address);
	}

	~ZooKeeper() override
	{
		zookeeper_close(m_handle);
	}

	void
	prepare(int count) override
	{
		constexpr int AT_ONCE = 500;
		for (int first = 0; first < count; first += AT_ONCE) {
			const int size = std::min(AT_ONCE, count - first);
			std::vector<std::string> paths;
			std::vector<zoo_op_t> steps(size);
			std::vector<zoo_op_result_t> results(size);
			for (int number = first; number < first + size; number++)
				paths.push_back("/" + resource_name(number));
			for (int step = 0; step < size; step++)
				zoo_create_op_init(
					&steps[step], paths[step].c_str(), "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, nullptr, 0);
			check(zoo_multi(m_handle, size, steps.data(), results.data()), "prepare");
		}
	}

	bool
	grant(int number) override
	{
		const std::string parent = "/" + resource_name(number);
		const std::string prefix = parent + "/n-";
		char made[128] = "";
		zoo_op_t steps[2];
		zoo_op_result_t results[2];
		int count = 0;
		zoo_create_op_init(&steps[count++], prefix.c_str(), "worker", 6, &ZOO_OPEN_ACL_UNSAFE,
			ZOO_EPHEMERAL | ZOO_SEQUENCE, made, sizeof made);
		if (!m_held.empty())
			zoo_delete_op_init(&steps[count++], m_held.c_str(), -1);
		check(zoo_multi(m_handle, count, steps, results), "create");
		m_held = made;

		String_vector children;
		check(zoo_get_children(m_handle, parent.c_str(), 0, &children), "get children");
		// The parent is in made, but not in the names of its children.
		const std::string own = m_held.substr(parent.size() + 1);
		const bool first = std::all_of(children.data, children.data + children.count,
			[&own](const char *other) { return own <= other; });
		deallocate_String_vector(&children);
		return first;
	}

private:
	static void
	session_changed(zhandle_t *, int type, int state, const char *, void *context)
	{
		auto *self = static_cast<ZooKeeper *>(context);
		const std::lock_guard<std::mutex> lock(self->m_mutex);
		self->m_connected = type == ZOO_SESSION_EVENT && state == ZOO_CONNECTED_STATE;
		self->m_changed.notify_all();
	}

	zhandle_t *m_handle = nullptr;
	std::string m_held;
	std::mutex m_mutex;
	std::condition_variable m_changed;
	bool m_connected = false;
};

} // namespace

std::unique_ptr<Client>
zookeeper_client(const std::string &address)
{
	return std::make_unique<ZooKeeper>(address);
}
