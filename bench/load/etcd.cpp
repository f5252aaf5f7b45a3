// SPDX-License-Identifier: PostgreSQL
// etcd.cpp: a lock whose value is the time at which it expires, taken over by one transaction when
// that time has passed; the revision of the store is the token.
//
// One commit for each grant. etcd's own lock, a key under a lease that is deleted in the end, costs
// two at least.
#include "client.h"
#include "etcd.grpc.pb.h"

#include <algorithm>
#include <chrono>
#include <grpcpp/grpcpp.h>
#include <stdexcept>

namespace {

// etcd compares values bytewise: as many digits each time.
std::string
now()
{
	const auto since = std::chrono::system_clock::now().time_since_epoch();
	std::string digits =
		std::to_string(std::chrono::duration_cast<std::chrono::microseconds>(since).count());
	return std::string(20 - digits.size(), '0') + digits;
}

class Etcd : public Client {
public:
	explicit Etcd(const std::string &address)
	{
		// Channels of equal arguments share a connection, unless they are told not to.
		grpc::ChannelArguments arguments;
		arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
		const auto channel =
			grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
		if (!channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(30)))
			throw std::runtime_error("etcd: cannot connect to " + address);
		m_store = etcdserverpb::KV::NewStub(channel);
	}

	void
	prepare(int count) override
	{
		constexpr int AT_ONCE = 100; // etcd takes 128
		for (int first = 0; first < count; first += AT_ONCE) {
			etcdserverpb::TxnRequest request;
			for (int number = first; number < std::min(first + AT_ONCE, count); number++)
				put(request, resource_name(number), now());
			if (!run(request).succeeded())
				throw std::runtime_error("etcd: prepare was refused");
		}
	}

	bool
	grant(int number) override
	{
		const std::string name = resource_name(number), time = now();
		etcdserverpb::TxnRequest request;
		etcdserverpb::Compare *expired = request.add_compare();
		expired->set_result(etcdserverpb::Compare::LESS);
		expired->set_target(etcdserverpb::Compare::VALUE);
		expired->set_key(name);
		expired->set_value(time);
		put(request, name, time);
		const etcdserverpb::TxnResponse response = run(request);
		return response.succeeded() && response.header().revision() > 0;
	}

private:
	static void
	put(etcdserverpb::TxnRequest &request, const std::string &name, const std::string &expires)
	{
		etcdserverpb::PutRequest *step = request.add_success()->mutable_request_put();
		step->set_key(name);
		step->set_value(expires);
	}

	etcdserverpb::TxnResponse
	run(const etcdserverpb::TxnRequest &request)
	{
		grpc::ClientContext context;
		etcdserverpb::TxnResponse response;
		const grpc::Status status = m_store->Txn(&context, request, &response);
		if (!status.ok())
			throw std::runtime_error("etcd: " + status.error_message());
		return response;
	}

	std::unique_ptr<etcdserverpb::KV::Stub> m_store;
};

} // namespace

std::unique_ptr<Client>
etcd_client(const std::string &address)
{
	return std::make_unique<Etcd>(address);
}
