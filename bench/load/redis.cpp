// SPDX-License-Identifier: PostgreSQL
// redis.cpp: a lock by SET NX PX, and its token by INCR, in one script.
#include "client.h"

#include <hiredis/hiredis.h>
#include <stdexcept>

namespace {

// The time to live is the shortest there is, so that it has passed when the resource comes up again.
constexpr char GRANT[] = "if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', 1) "
						 "then return redis.call('INCR', 'token') end return 0";

struct FreeReply {
	void
	operator()(redisReply *reply) const
	{
		freeReplyObject(reply);
	}
};
using Reply = std::unique_ptr<redisReply, FreeReply>;

class Redis : public Client {
public:
	explicit Redis(const std::string &socket)
		: m_connection(redisConnectUnix(socket.c_str()), redisFree)
	{
		if (!m_connection || m_connection->err)
			throw std::runtime_error("redis: cannot connect to " + socket);
		// By its hash, as a client library does: the text need not travel with each call.
		const Reply loaded(answer(redisCommand(m_connection.get(), "SCRIPT LOAD %s", GRANT)));
		m_script = loaded->str;
	}

	void
	prepare(int) override
	{
	}

	bool
	grant(int number) override
	{
		const std::string name = resource_name(number);
		const Reply reply(answer(redisCommand(
			m_connection.get(), "EVALSHA %s 1 %s worker", m_script.c_str(), name.c_str())));
		return reply->type == REDIS_REPLY_INTEGER && reply->integer > 0;
	}

private:
	redisReply *
	answer(void *raw)
	{
		auto *reply = static_cast<redisReply *>(raw);
		if (!reply)
			throw std::runtime_error(std::string("redis: ") + m_connection->errstr);
		if (reply->type == REDIS_REPLY_ERROR)
			throw std::runtime_error(std::string("redis: ") + reply->str);
		return reply;
	}

	std::unique_ptr<redisContext, void (*)(redisContext *)> m_connection;
	std::string m_script;
};

} // namespace

std::unique_ptr<Client>
redis_client(const std::string &address)
{
	return std::make_unique<Redis>(address);
}
