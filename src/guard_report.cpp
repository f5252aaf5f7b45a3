// SPDX-License-Identifier: PostgreSQL
// guard_report.cpp: what a guard says, for the views: never an error, whatever stands there.

#include "pg/prelude.h"

#include "core/guard_options.h"
#include "core/resource_template.h"
#include "pg/rows.h"

extern "C" {
#include "utils/builtins.h"
#include "utils/lsyscache.h"
}

namespace fencing {

namespace {

constexpr int columns = 8;

struct Report {
	core::GuardOptions options;
	const char *fault;          // null: none that can be seen from here
	const char *missing_column; // null: all are there
};
static_assert(survives_longjmp<Report>);

char *
string_of(std::string_view view)
{
	return pnstrdup(view.data(), view.size());
}

void
require_column(Oid relation, std::string_view name, Report *report)
{
	char *column = string_of(name);

	if (report->missing_column != nullptr || get_attnum(relation, column) != InvalidAttrNumber)
		return;
	report->missing_column = column;
	report->fault = psprintf("names column \"%s\", which is not there", column);
}

// The arguments of a trigger as the catalog has them: each followed by a zero byte.
void
read_arguments(std::string_view stored, Report *report)
{
	while (!stored.empty() && report->fault == nullptr) {
		std::string_view argument{stored.data()};

		if (core::add_option(&report->options, argument).problem != core::OptionProblem::none)
			report->fault = psprintf("has a bad argument: %s", string_of(argument));
		stored.remove_prefix(argument.size() + 1);
	}
}

Report
report_on(Oid relation, std::string_view stored)
{
	Report report = {{}, nullptr, nullptr};
	core::ResourceTemplate parsed;

	read_arguments(stored, &report);
	if (report.fault == nullptr && report.options.token_column.empty() &&
		report.options.resource.empty())
		report.fault = "has neither a token column nor a resource";
	if (report.fault != nullptr)
		return report;
	if (!report.options.token_column.empty())
		require_column(relation, report.options.token_column, &report);
	if (core::parse_template(report.options.resource, &parsed) != core::TemplateProblem::none) {
		report.fault = "has a bad resource template";
		return report;
	}
	for (std::size_t i = 0; i < parsed.count; i++) {
		if (parsed.pieces[i].is_column)
			require_column(relation, parsed.pieces[i].text, &report);
	}
	return report;
}

Datum
report_datum(TupleDesc description, const Report &report)
{
	const core::GuardOptions &options = report.options;
	const char *words[columns] = {
		options.token_column.empty() ? nullptr : string_of(options.token_column),
		options.resource.empty() ? nullptr : string_of(options.resource),
		options.resource.empty()                      ? nullptr
			: options.issuer == core::Issuer::fencing ? "fencing"
													  : "external",
		options.source == core::Source::any ? "any" : "transaction",
		options.missing == core::Missing::reject ? "reject" : "allow",
		options.mode == core::Mode::enforce ? "enforce" : "observe", report.fault,
		report.missing_column};
	Datum values[columns];
	bool nulls[columns];

	for (int i = 0; i < columns; i++) {
		nulls[i] = words[i] == nullptr;
		values[i] = nulls[i] ? Datum(0) : CStringGetTextDatum(words[i]);
	}
	return HeapTupleGetDatum(heap_form_tuple(description, values, nulls));
}

} // namespace

} // namespace fencing

FENCING_FUNCTION(fencing_guard_options)
{
	return fencing::return_row_or_none(fcinfo, [&](TupleDesc description) -> std::optional<Datum> {
		if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
			return std::nullopt;

		const bytea *stored = PG_GETARG_BYTEA_PP(1);
		std::size_t length = VARSIZE_ANY_EXHDR(stored);
		const char *bytes = VARDATA_ANY(stored);

		// What anybody may call must not trust the last byte.
		if (length > 0 && bytes[length - 1] != '\0')
			return std::nullopt;
		return fencing::report_datum(
			description, fencing::report_on(PG_GETARG_OID(0), {bytes, length}));
	});
}
