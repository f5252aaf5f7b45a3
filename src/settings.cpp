// SPDX-License-Identifier: PostgreSQL
// settings.cpp: every setting of the extension.
//
// fencing.token must count only in the transaction that set it. The server keeps, beside each
// value, an "extra" that its check hook made, and carries it through SAVEPOINT, ROLLBACK TO and
// the SET clause of functions; ours remembers which transaction that was.

#include "settings.h"

#include "pg/stop_point.h"

extern "C" {
#include "utils/guc.h"
#include "utils/guc_tables.h"
}

namespace fencing::settings {

namespace {

constexpr const char *token_name = "fencing.token";

struct TokenExtra {
	std::int64_t token;        // 0: none
	LocalTransactionId set_by; // InvalidLocalTransactionId: no transaction that counts
};

char *token_text = nullptr;
const TokenExtra *token_extra = nullptr;
bool loading = false;
int enforcement_value = static_cast<int>(Enforcement::enforce);
bool durable_grants_value = true;
int seal_timeout_value = 10000;
bool notify_value = false;

const struct config_enum_entry enforcement_words[] = {
	{"off", static_cast<int>(Enforcement::off), false},
	{"observe", static_cast<int>(Enforcement::observe), false},
	{"enforce", static_cast<int>(Enforcement::enforce), false}, {nullptr, 0, false}};

// Digits only: no sign, no space. Empty means none.
bool
parse_token(std::string_view value, std::int64_t *token)
{
	*token = 0;
	for (char digit : value) {
		if (digit < '0' || digit > '9' || __builtin_mul_overflow(*token, 10, token) ||
			__builtin_add_overflow(*token, digit - '0', token))
			return false;
	}
	return true;
}

extern "C" bool
check_token(char **value, void **extra, GucSource source)
{
	std::int64_t token;

	if (!parse_token(*value, &token)) {
		GUC_check_errdetail("The token must be empty, or a whole number from 0 to %lld.",
			static_cast<long long>(PG_INT64_MAX));
		return false;
	}

	auto *made = static_cast<TokenExtra *>(compat::guc_extra_alloc(sizeof(TokenExtra)));

	if (made == nullptr)
		return false;
	// Configuration files, roles and connections have other sources than SET. A file can be read
	// again in the middle of a transaction.
	made->token = token;
	made->set_by = source == PGC_S_SESSION && !loading && MyProc != nullptr
		? compat::current_lxid()
		: InvalidLocalTransactionId;
	*extra = made;
	return true;
}

extern "C" void
assign_token(const char * /*value*/, void *extra)
{
	token_extra = static_cast<const TokenExtra *>(extra);
}

void
mark_as_set_here(void *extra, const void *reset_extra)
{
	if (extra != nullptr && extra != reset_extra)
		static_cast<TokenExtra *>(extra)->set_by = compat::current_lxid();
}

// A session may SET fencing.token before it uses the library for the first time. The server then
// hands the values it kept to the check hook, which cannot tell a SET of this transaction from one
// of an earlier client. The stack of values can: it holds what this transaction (or a function in
// it) has replaced, and at its bottom, as the first "prior", the session's value from before. (What
// SET LOCAL masks comes back when the transaction ends, where it counts for nothing.)
void
count_values_of_this_transaction()
{
	const struct config_generic *setting = compat::find_setting(token_name);
	const void *reset_extra = compat::setting_reset_extra(setting);

	if (setting->stack == nullptr)
		return;
	mark_as_set_here(setting->extra, reset_extra);
	for (const GucStack *entry = setting->stack; entry->prev != nullptr; entry = entry->prev)
		mark_as_set_here(entry->prior.extra, reset_extra);
}

} // namespace

void
define()
{
	loading = true;
	DefineCustomStringVariable(token_name,
		"The fencing token that the writes of this transaction carry.",
		"Counts only in the transaction that sets it; empty means none.", &token_text, "",
		PGC_USERSET, 0, check_token, assign_token, nullptr);
	loading = false;
	count_values_of_this_transaction();

	DefineCustomEnumVariable("fencing.enforcement",
		"Whether guards refuse writes, only warn about them, or do nothing.",
		"The weaker of this and the mode of a guard wins; it applies to fencing.bind() as well.",
		&enforcement_value, static_cast<int>(Enforcement::enforce), enforcement_words, PGC_SUSET, 0,
		nullptr, nullptr, nullptr);
	DefineCustomBoolVariable("fencing.durable_grants",
		"Whether a committed grant or advance is durable even with synchronous_commit off.",
		"When off, a crash can take back the last grants, and with them the refusal of older "
		"tokens.",
		&durable_grants_value, true, PGC_SUSET, 0, nullptr, nullptr, nullptr);
	DefineCustomIntVariable("fencing.seal_timeout",
		"The longest time that the check of fencing tokens at COMMIT waits for other transactions.",
		"lock_timeout applies as well, if it is shorter; statement_timeout does not reach a "
		"COMMIT.",
		&seal_timeout_value, 10000, 1, 600000, PGC_USERSET, GUC_UNIT_MS, nullptr, nullptr, nullptr);
	DefineCustomBoolVariable("fencing.notify",
		"Whether grants and releases of leases are sent with NOTIFY on channel \"fencing\".",
		"Transactions that NOTIFY commit one after the other.", &notify_value, false, PGC_USERSET,
		0, nullptr, nullptr, nullptr);
#ifdef FENCING_STOP_POINTS
	define_stop_points();
#endif
	compat::reserve_guc_prefix("fencing");
}

std::optional<std::int64_t>
transaction_token()
{
	if (token_extra == nullptr || token_extra->token == 0 ||
		token_extra->set_by != compat::current_lxid())
		return std::nullopt;
	return token_extra->token;
}

bool
has_left_over_token()
{
	return token_extra != nullptr && token_extra->token != 0 && !transaction_token();
}

Enforcement
enforcement()
{
	return static_cast<Enforcement>(enforcement_value);
}

int
seal_timeout_ms()
{
	return seal_timeout_value;
}

bool
notify()
{
	return notify_value;
}

bool
durable_grants()
{
	return durable_grants_value;
}

} // namespace fencing::settings
