# fencing: PGXS Makefile. Sections: module, SQL, tests, flags, PGXS, own rules.

# ---- module
EXTENSION = fencing
MODULE_big = fencing
EXTVERSION = $(shell sed -n "s/^default_version *= *'\(.*\)'/\1/p" fencing.control)
OBJS = $(patsubst %.cpp,%.o,$(sort $(wildcard src/*.cpp src/pg/*.cpp)))
PGFILEDESC = "fencing - fencing tokens, leases, and guards against stale writes"

# ---- SQL: the install script is made of pieces, one for each feature word; the order matters. The upgrade script is
# made of the same pieces, those that its version has brought, and of every comment. What is released never changes.
SQL_RELEASED = 1.0
SQL_PIECES = header token fence lease guard privileges $(SQL_NEW)
SQL_NEW = leases guards monitor evict verify privileges_1_1
SQL_UPGRADE = fencing--$(lastword $(SQL_RELEASED))--$(EXTVERSION).sql
DATA_built = fencing--$(EXTVERSION).sql $(SQL_UPGRADE)
DATA = $(wildcard src/sql/released/fencing--*.sql)

# ---- tests
REGRESS_ALL = $(sort $(patsubst sql/%.sql,%,$(wildcard sql/*.sql)))
# MERGE came with 15, MERGE inside a CTE (with RETURNING) with 17
REGRESS_SINCE_15 = guard_merge
REGRESS_SINCE_17 = guard_merge_cte resource_guard_merge_cte
# These call what SQL_NEW has, or list it.
REGRESS_SQL_NEW = install privileges leases guards verify
REGRESS = $(filter-out $(if $(filter 14,$(PG_MAJOR)),$(REGRESS_SINCE_15)) \
	$(if $(filter 14 15 16,$(PG_MAJOR)),$(REGRESS_SINCE_17)),$(REGRESS_ALL))
ISOLATION = $(sort $(patsubst test/specs/%.spec,%,$(wildcard test/specs/*.spec)))
ISOLATION_OPTS = --inputdir=test --outputdir=test/output
TAP_TESTS = 1
PROVE_TESTS = test/t/*.pl
PROVE_FLAGS = -I test/perl

# ---- flags
PG_CONFIG ?= pg_config
PG_MAJOR := $(shell $(PG_CONFIG) --version | sed 's/^[^0-9]*\([0-9]*\).*/\1/')
# Server headers as system headers: their warnings do not drown ours, and 14 and 15 still say `register`.
PG_CPPFLAGS = -isystem $(shell $(PG_CONFIG) --includedir-server) -I$(srcdir:/=)/src \
	-DFENCING_VERSION=\"$(EXTVERSION)\" $(EXTRA_CPPFLAGS)
FENCING_CXXFLAGS = -std=gnu++17 -fno-exceptions -fno-rtti -fno-threadsafe-statics \
	-fvisibility=hidden -fvisibility-inlines-hidden \
	-Wall -Wextra -Wshadow -Wimplicit-fallthrough $(if $(WERROR),-Werror)
PG_CXXFLAGS = $(FENCING_CXXFLAGS) $(if $(filter clang%,$(notdir $(CXX))),-Wno-unknown-warning-option) \
	-MMD -MP $(EXTRA_CXXFLAGS)
SHLIB_LINK = $(EXTRA_LDFLAGS)
EXTRA_CLEAN = $(DATA_built) $(OBJS:.o=.d) test/output

# ---- PGXS
ifeq ($(filter 14 15 16 17 18 19,$(PG_MAJOR)),)
$(error fencing supports PostgreSQL 14 to 19, and "$(PG_CONFIG)" is of version $(PG_MAJOR))
endif
# Bitcode wants the very clang that the server was built with; a machine without it builds the rest.
FENCING_CLANG := $(shell sed -n 's/^CLANG *= *//p' $(dir $(shell $(PG_CONFIG) --pgxs))../Makefile.global)
ifeq ($(shell command -v $(FENCING_CLANG) 2>/dev/null),)
override with_llvm = no
endif
PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)

# ---- own rules
# PGXS does not hand PG_CXXFLAGS to the bitcode step. The two -W are a free lint: nothing of ours is
# constructed when the library loads or destroyed at exit.
COMPILE.cxx.bc += $(FENCING_CXXFLAGS) -Wno-unknown-warning-option -Wno-ignored-attributes \
	-Werror=global-constructors -Werror=exit-time-destructors

$(OBJS): Makefile
-include $(OBJS:.o=.d)

fencing--$(EXTVERSION).sql: $(SQL_PIECES:%=src/sql/%.sql) fencing.control
	cat $(SQL_PIECES:%=src/sql/%.sql) > $@

$(SQL_UPGRADE): src/sql/upgrade_header.sql $(SQL_PIECES:%=src/sql/%.sql) fencing.control
	cat src/sql/upgrade_header.sql $(SQL_NEW:%=src/sql/%.sql) > $@
	sed -n '/^COMMENT ON/{:more;/;$$/!{N;b more};p}' $(filter-out $(SQL_NEW:%=src/sql/%.sql),$(SQL_PIECES:%=src/sql/%.sql)) >> $@

# The archive for PGXN, of what is committed. PGXN wants a version of three numbers, which META.json has.
DISTVERSION = $(shell sed -n '/"version"/{s/.*: *"\(.*\)".*/\1/p;q}' META.json)
dist:
	git archive --format=zip --prefix=fencing-$(DISTVERSION)/ --output=fencing-$(DISTVERSION).zip HEAD

.PHONY: dist lint unit regress_names
# For who runs pg_regress in another way: all of it, and what passes with the released SQL as well.
regress_names:
	@echo $(REGRESS)
	@echo $(filter-out $(REGRESS_SQL_NEW),$(REGRESS))
lint: all
	test/lint
unit:
	$(MAKE) -C test/unit check
