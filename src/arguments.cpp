// SPDX-License-Identifier: PostgreSQL
// arguments.cpp: the arguments of SQL functions, checked.

#include "arguments.h"

extern "C" {
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
}

namespace fencing {

namespace {

constexpr std::int64_t most_ttl_days = 3660; // 10 years, and some leap days
constexpr int most_ttl_months = 120;

Timestamp
add(Timestamp start, const Interval *span)
{
	return DatumGetTimestamp(DirectFunctionCall2(
		timestamp_pl_interval, TimestampGetDatum(start), IntervalPGetDatum(span)));
}

// An interval of 17 and later can be infinite, and any can be too large for a calendar; both show
// in its fields, before any arithmetic can overflow.
bool
within_ten_years(const Interval *span)
{
	return span->month >= -most_ttl_months && span->month <= most_ttl_months &&
		span->day >= -most_ttl_days && span->day <= most_ttl_days &&
		span->time >= -most_ttl_days * USECS_PER_DAY && span->time <= most_ttl_days * USECS_PER_DAY;
}

void
raise_bad_ttl()
{
	ereport(ERROR,
		(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			errmsg("ttl must be more than zero and at most 10 years")));
}

} // namespace

void
raise_bad_resource_name(const char *detail)
{
	ereport(ERROR,
		(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			errmsg("resource name must have 1 to %zu bytes", longest_resource),
			errdetail_internal("%s", detail)));
	pg_unreachable();
}

void
require_argument(FunctionCallInfo fcinfo, int number, const char *name)
{
	if (PG_ARGISNULL(number))
		ereport(
			ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("%s must not be NULL", name)));
}

const text *
resource_argument(FunctionCallInfo fcinfo, int number)
{
	require_argument(fcinfo, number, "resource");

	const text *resource = PG_GETARG_TEXT_PP(number);
	std::size_t length = view_of(resource).size();

	if (length == 0 || length > longest_resource)
		raise_bad_resource_name(psprintf("It has %zu.", length));
	return resource;
}

std::int64_t
token_argument(FunctionCallInfo fcinfo, int number)
{
	require_argument(fcinfo, number, "token");

	std::int64_t token = PG_GETARG_INT64(number);

	if (token < 1)
		ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("token must be 1 or more"),
				errdetail("It is %lld.", static_cast<long long>(token))));
	return token;
}

const Interval *
ttl_argument(FunctionCallInfo fcinfo, int number)
{
	require_argument(fcinfo, number, "ttl");

	const Interval *ttl = PG_GETARG_INTERVAL_P(number);

	if (!within_ten_years(ttl))
		raise_bad_ttl();

	const Interval most = {0, 0, most_ttl_months};
	const Interval zero = {0, 0, 0};

	if (DatumGetBool(
			DirectFunctionCall2(interval_le, IntervalPGetDatum(ttl), IntervalPGetDatum(&zero))) ||
		DatumGetBool(
			DirectFunctionCall2(interval_gt, IntervalPGetDatum(ttl), IntervalPGetDatum(&most))))
		raise_bad_ttl();
	return ttl;
}

std::int64_t
span_argument(FunctionCallInfo fcinfo, int number, const char *name)
{
	require_argument(fcinfo, number, name);

	const Interval *span = PG_GETARG_INTERVAL_P(number);
	const Interval zero = {0, 0, 0};

	if (compat::is_infinite(span) ||
		DatumGetBool(
			DirectFunctionCall2(interval_lt, IntervalPGetDatum(span), IntervalPGetDatum(&zero))))
		ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				errmsg("%s must be zero or more, and finite", name)));

	std::int64_t length = static_cast<std::int64_t>(span->month) * DAYS_PER_MONTH + span->day;

	if (__builtin_mul_overflow(length, USECS_PER_DAY, &length) ||
		__builtin_add_overflow(length, span->time, &length))
		return PG_INT64_MAX;
	return length;
}

TimestampTz
expiry(TimestampTz now, const Interval *ttl)
{
	TimestampTz end = add(now, ttl);

	if (end <= now)
		raise_bad_ttl();
	return end;
}

} // namespace fencing
