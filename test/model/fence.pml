// SPDX-License-Identifier: PostgreSQL
// fence.pml: the protocol of the resource fence, for spin: who locks, looks and writes in which
// order, so that no stale write commits after a grant. README.md says how to run it.
//
// Followed from the code: a transaction checks its tokens when it writes (src/admission.cpp); when
// it commits or is prepared it locks, looks again and raises the fences that its tokens exceed
// (src/seal.cpp); acquire, advance, forget and prune change a fence under lock (src/lease.cpp,
// src/fence.cpp). The locks and their queues are the server's (lock.c, proc.c).
//
// Checked in every state that can be reached:
//   I2   a grant has a greater token than all grants of its resource that have committed
//   I3   no commit lowers a fence, or leaves one below a token from elsewhere that it has written with
//   I5   what commits has no lower token than the grants and raises that have committed
//   I6   who has not begun to commit holds no lock; and an acquire that has to give up a try for
//        the lock was kept away by a commit, a prepared transaction or a grant, of its own resource
//        or over its whole bucket
//   end  every transaction ends: nothing here repeats for ever, so each run is finite, and
//        transactions that wait for each other are an invalid end state
//
// Left out, and why no behaviour is lost by it:
//   timeouts of the seal, deadlock detector
//        they end transactions that wait: the order of the locks has to do without them
//   clocks, leases, steal
//        they say who may be granted when: here anybody may at any time, or not
//   the look without lock
//        it saves acquire a try that would come to nothing
//   the queue of acquire
//        it says which of those who wait may try: here all may
//   renew, release
//        they change no token, and lock as a seal and as a grant do
//   epochs, and how tokens are made
//        here the next one is greater than all before
//   the rows written
//        a commit is one step, as it is for every snapshot; the locks go one by one after it
//   savepoints
//        they say which claims there are at the end, not what becomes of them
//   observe mode
//        waits for nothing and promises nothing
//   row locks
//        a holder that works in the transaction of its grant may wait for the row of a sleeper
//        whose seal waits for the grant: the one cycle that the protocol leaves to the deadlock
//        detector, which lets nothing pass
//
// A scenario symbol says who takes part; a fault symbol puts in one mistake.

#if defined(GRANTS)
// One resource with tokens issued here: two writers, a prepared and an escalated transaction, and
// somebody who is granted.
#define PROCESSES 5
#define RESOURCES 1
#define BUCKETS 1
#define EXTERNAL 0
#define START                         \
	run transaction(0, 1, EXACT);     \
	run transaction(1, 1, EXACT);     \
	run transaction(2, 1, PREPARED);  \
	run transaction(3, 1, ESCALATED); \
	run granter(4, 0, 1)

#elif defined(RETRIES)
// One writer less, and somebody who is granted again and again, or gives up and tries again.
#define PROCESSES 4
#define RESOURCES 1
#define BUCKETS 1
#define EXTERNAL 0
#define START                         \
	run transaction(0, 1, EXACT);     \
	run transaction(1, 1, PREPARED);  \
	run transaction(2, 1, ESCALATED); \
	run granter(3, 0, 3)

#elif defined(GRANTERS)
// Two at once who are granted, and may work in the same transaction.
#define PROCESSES 4
#define RESOURCES 1
#define BUCKETS 1
#define EXTERNAL 0
#define WORKS
#define START                         \
	run transaction(0, 1, EXACT);     \
	run transaction(1, 1, PREPARED);  \
	run granter(2, 0, 2);             \
	run granter(3, 0, 2)

#elif defined(NEIGHBOURS)
// Two resources in one bucket, the second with tokens from elsewhere.
#define PROCESSES 5
#define RESOURCES 2
#define BUCKETS 1
#define EXTERNAL 2
#define START                         \
	run transaction(0, 1, EXACT);     \
	run transaction(1, 2, EXACT);     \
	run transaction(2, 1, PREPARED);  \
	run transaction(3, 3, ESCALATED); \
	run granter(4, 0, 1)

#elif defined(RAISES)
// One resource with tokens from elsewhere: everybody may raise its fence.
#define PROCESSES 4
#define RESOURCES 1
#define BUCKETS 1
#define EXTERNAL 1
#define START                         \
	run transaction(0, 1, EXACT);     \
	run transaction(1, 1, PREPARED);  \
	run transaction(2, 1, ESCALATED); \
	run granter(3, 0, 2)

#elif defined(MANY)
// Three resources in two buckets, of which everybody has several, some to raise and some not.
#define PROCESSES 3
#define RESOURCES 3
#define BUCKETS 2
#define EXTERNAL 7
#define START                         \
	run transaction(0, 7, EXACT);     \
	run transaction(1, 6, EXACT);     \
	run transaction(2, 5, ESCALATED)

#elif defined(FORGETTING)
// A fence with tokens from elsewhere that is dropped meanwhile.
#define PROCESSES 4
#define RESOURCES 1
#define BUCKETS 1
#define EXTERNAL 1
#define FIRST_FENCE 2
#define START                         \
	run transaction(0, 1, EXACT);     \
	run transaction(1, 1, EXACT);     \
	run granter(2, 0, 1);             \
	run forgetter(3, 0)

#elif defined(PRUNING)
// A row with tokens issued here that is deleted meanwhile.
#define PROCESSES 4
#define RESOURCES 1
#define BUCKETS 1
#define EXTERNAL 0
#define START                         \
	run transaction(0, 1, EXACT);     \
	run transaction(1, 1, PREPARED);  \
	run granter(2, 0, 2);             \
	run pruner(3, 0)

#else
#error "no scenario"
#endif

// Tokens from elsewhere are 1 and 2, those issued here go up from 1; a fence of 0 is no row. So a
// token can be lower than a fence, equal, greater, or the first.
#define TOKENS 2
#ifndef FIRST_FENCE
#define FIRST_FENCE (is_external(i) -> 0 : 1)
#endif

#define BIT(r) (1 << (r))
#define is_external(r) (EXTERNAL & BIT(r))

// ---- lock tags: first the buckets, then the resources, in the order in which all lock them

#define TAGS (BUCKETS + RESOURCES)
#define bucket_of(r) ((r) * BUCKETS / RESOURCES)
#define exact_of(r) (BUCKETS + (r))
#define in_bucket(r, b) ((r) < RESOURCES && bucket_of(r) == (b) -> BIT(r) : 0)
#define resources_in(b) (in_bucket(0, b) | in_bucket(1, b) | in_bucket(2, b))

// ---- lock modes, as bits, and the server's conflict table for them

#define NONE 0
#define ROW_SHARE 1
#define ROW_EXCLUSIVE 2
#define SHARE 4
#define EXCLUSIVE 8
#define ALL_MODES 15
#define conflicts(mode)                                                       \
	((mode) == ROW_SHARE -> EXCLUSIVE :                                       \
	((mode) == ROW_EXCLUSIVE -> (SHARE | EXCLUSIVE) :                         \
	((mode) == SHARE -> (ROW_EXCLUSIVE | EXCLUSIVE) : ALL_MODES)))

#ifdef SWAPPED_MODES
#define BUCKET_SHARED SHARE
#define EXACT_SHARED ROW_SHARE
#define BUCKET_EXCLUSIVE EXCLUSIVE
#define EXACT_EXCLUSIVE ROW_EXCLUSIVE
#else
#define BUCKET_SHARED ROW_SHARE
#define EXACT_SHARED SHARE
#define BUCKET_EXCLUSIVE ROW_EXCLUSIVE
#define EXACT_EXCLUSIVE EXCLUSIVE
#endif

#ifdef ESCALATED_ROW_SHARE
#define BUCKET_ESCALATED ROW_SHARE
#else
#define BUCKET_ESCALATED SHARE
#endif

// ---- the state

// The row of a resource: the committed version, which a fresh snapshot sees, and the one that
// `changer` (a process plus 1) has written and not committed. 0 is no row.
byte fence[RESOURCES];
byte changed_to[RESOURCES];
byte changer[RESOURCES];

byte last_token = 1; // that was issued here

// For I2 and I5: the greatest token that has stood in the row, or has since it was forgotten.
byte highest[RESOURCES];

// What each process holds of each tag; the mode for which it stands in a queue; the queues, of
// processes plus 1.
byte held[PROCESSES * TAGS];
byte wanted[PROCESSES];
byte queue[TAGS * PROCESSES];

// For I6: the resources for which a process has begun to commit, is prepared, has a grant or tries
// to get one.
byte busy[PROCESSES];

// Scratch, no part of the state: used only within a d_step.
hidden byte i, k, q, place, others, ahead, found;

#define held_by(process, tag) held[(process) * TAGS + (tag)]
#define in_queue(tag, n) queue[(tag) * PROCESSES + (n)]

// ---- locks. What the server does under the lock of a partition of its table is one step.

inline find_others(process, tag)
{
	others = 0;
	for (k : 0 .. PROCESSES - 1) {
		if
		:: k != process -> others = others | held_by(k, tag)
		:: else
		fi
	}
}

// ProcLockWakeup: along the queue, whoever conflicts neither with a holder nor with somebody ahead.
inline wake(tag)
{
	i = 0;
	ahead = 0;
	do
	:: i == PROCESSES -> break
	:: i < PROCESSES && in_queue(tag, i) == 0 -> break
	:: else ->
		q = in_queue(tag, i) - 1;
		find_others(q, tag);
		if
		:: (conflicts(wanted[q]) & (ahead | others)) ->
			ahead = ahead | wanted[q];
			i++
		:: else ->
			held_by(q, tag) = held_by(q, tag) | wanted[q];
			wanted[q] = NONE;
			take_out(tag, i)
		fi
	od;
	i = 0
}

inline take_out(tag, n)
{
	k = n;
	do
	:: k == PROCESSES - 1 -> in_queue(tag, k) = 0; break
	:: else -> in_queue(tag, k) = in_queue(tag, k + 1); k++
	od;
	k = 0 // a d_step must not end with a loop
}

// LockAcquireExtended and ProcSleep: at once if nothing conflicts, held or waited for; else at the
// end of the queue, or ahead of the first who waits for what this process holds.
inline request(process, tag, mode)
{
	d_step {
		if
		:: held_by(process, tag) & (mode)
		:: else ->
			find_others(process, tag);
			place = PROCESSES;
			ahead = 0; // of the place
			found = 0; // everybody who waits
			i = 0;
			do
			:: i == PROCESSES -> break
			:: i < PROCESSES && in_queue(tag, i) == 0 -> break
			:: else ->
				q = in_queue(tag, i) - 1;
				if
				:: place == PROCESSES && (conflicts(wanted[q]) & held_by(process, tag)) ->
					place = i;
					ahead = found
				:: else
				fi;
				found = found | wanted[q];
				i++
			od;
			if
			:: place == PROCESSES -> place = i; ahead = found
			:: else
			fi;
			if
			:: !((conflicts(mode)) & (others | ahead)) ->
				held_by(process, tag) = held_by(process, tag) | (mode)
			:: else ->
				do
				:: i == place -> break
				:: else -> in_queue(tag, i) = in_queue(tag, i - 1); i--
				od;
				in_queue(tag, place) = process + 1;
				wanted[process] = mode
			fi
		fi
	}
}

#define has_lock(process) (wanted[process] == NONE)

inline give_up(process, tag)
{
	d_step {
		wanted[process] = NONE;
		i = 0;
		do
		:: in_queue(tag, i) == process + 1 -> break
		:: else -> i++
		od;
		take_out(tag, i);
		wake(tag)
	}
}

#define is_against(holder, process, tag, mode)                                \
	((holder) < PROCESSES && (holder) != (process) &&                         \
	(held_by((holder) % PROCESSES, tag) & conflicts(mode)))
#define is_held_against(process, tag, mode)                                   \
	(is_against(0, process, tag, mode) || is_against(1, process, tag, mode) || \
	is_against(2, process, tag, mode) || is_against(3, process, tag, mode) || \
	is_against(4, process, tag, mode))

// The rest of a wait in slices: a first try that may end without the lock at any moment, and a next
// one when nobody holds the lock any more. Tries in between would come to nothing, and make others
// wait for no longer than the first.
inline have_in_slices(process, tag, mode)
{
	if
	:: has_lock(process)
	:: !has_lock(process) ->
		give_up(process, tag);
		!is_held_against(process, tag, mode);
		request(process, tag, mode);
		has_lock(process)
	fi
}

// ---- the end of a transaction

#define is_mine(r) (changer[r] == me + 1)

inline forget_changes()
{
	for (i : 0 .. RESOURCES - 1) {
		if
		:: is_mine(i) -> changer[i] = 0; changed_to[i] = 0
		:: else
		fi
	}
	i = 0
}

inline commit_changes(is_grant)
{
	for (i : 0 .. RESOURCES - 1) {
		if
		:: is_mine(i) ->
			assert(!is_grant || is_external(i) || changed_to[i] > highest[i]); // I2
			assert(changed_to[i] >= fence[i] || changed_to[i] == 0);           // I3; 0: deleted
			fence[i] = changed_to[i];
			if
			:: fence[i] > highest[i] -> highest[i] = fence[i]
			:: else
			fi;
			changer[i] = 0;
			changed_to[i] = 0
		:: else
		fi
	}
	i = 0
}

inline check_holds_nothing()
{
	for (i : 0 .. TAGS - 1) {
		assert(held_by(me, i) == NONE) // I6
	}
	i = 0
}

// One by one, after what the transaction did is seen.
inline release_a_lock()
{
	place = 0;
	do
	:: place < TAGS && held_by(me, place) == NONE -> place++
	:: else -> break
	od;
	if
	:: place < TAGS -> held_by(me, place) = NONE; wake(place)
	:: else
	fi;
	found = NONE;
	for (place : 0 .. TAGS - 1) {
		found = found | held_by(me, place)
	}
	if
	:: found == NONE -> busy[me] = 0
	:: else
	fi
}

// ---- a transaction that writes, or is only bound

mtype = { EXACT, ESCALATED, PREPARED };

#define is_claimed(r) (claims & BIT(r))
#define is_raised(r) (raises & BIT(r))
#define claims_in(b) (claims & resources_in(b))
#define raises_in(b) (raises & resources_in(b))

inline clean_up()
{
	r = 0;
	raises = 0;
	seen = 0;
	for (i : 0 .. RESOURCES - 1) {
		token[i] = 0
	}
	i = 0
}

#if defined(TRANSACTION_SNAPSHOT) || defined(LOOK_BEFORE_LOCK)
#define OLD_LOOK
inline take_snapshot()
{
	for (i : 0 .. RESOURCES - 1) {
		snapshot[i] = fence[i]
	}
	i = 0
}
#endif

proctype transaction(byte me; byte claims; mtype kind)
{
	byte token[RESOURCES];
	byte raises; // the resources whose fence it has to raise
	byte r, at, seen;

#ifdef OLD_LOOK
	byte snapshot[RESOURCES];
#endif
#ifdef TRANSACTION_SNAPSHOT
	d_step { take_snapshot() }
#endif

	// The early check reads what is committed now.
write:
	atomic {
		if
		:: !is_claimed(r)
		:: is_claimed(r) && !is_external(r) -> token[r] = fence[r]
		:: is_claimed(r) && is_external(r) -> select (seen : 1 .. TOKENS); token[r] = seen; seen = 0
		fi;
		if
		:: is_claimed(r) && (token[r] == 0 || token[r] < fence[r]) ->
			d_step { clean_up() }
			goto end_of_it
		:: else
		fi;
#ifdef LOCK_AT_WRITE
		request(me, exact_of(r), EXACT_SHARED);
		has_lock(me);
#endif
		r++;
		if
		:: r < RESOURCES -> goto write
		:: else -> r = 0
		fi
	}

	// It sleeps. It may never wake up; or it begins to commit, or to be prepared.
	if
	:: atomic { true -> d_step { check_holds_nothing(); clean_up() }; goto end_of_it }
	:: atomic {
#ifdef NO_PRE_PREPARE
			kind != PREPARED ->
#else
			true ->
#endif
			d_step {
				busy[me] = claims;
				for (i : 0 .. BUCKETS - 1) {
					if
					:: kind == ESCALATED && claims_in(i) -> busy[me] = busy[me] | resources_in(i)
					:: else
					fi
				}
				// Who has to raise a fence locks exclusively from the start. A fence that has
				// reached the token now, seen without a lock, stands no lower later.
				for (i : 0 .. RESOURCES - 1) {
					if
					:: is_claimed(i) && is_external(i) && fence[i] < token[i] ->
						raises = raises | BIT(i)
					:: else
					fi
				}
				i = 0;
#ifdef LOOK_BEFORE_LOCK
				take_snapshot()
#endif
			}
#ifdef NO_SEAL_LOCK
			goto look
#else
			if
			:: kind == ESCALATED -> goto lock_bucket
			:: else -> goto lock_exact
			fi
#endif
		}
#ifdef NO_PRE_PREPARE
	:: atomic { kind == PREPARED -> goto decide }
#endif
	fi;

lock_exact:
	atomic {
#ifdef UNSORTED
		at = (me == 0 -> RESOURCES - 1 - r : r);
#else
		at = r;
#endif
		if
		:: !is_claimed(at) -> goto next_exact
		:: is_claimed(at) && !is_raised(at) -> request(me, bucket_of(at), BUCKET_SHARED)
		:: is_claimed(at) && is_raised(at) -> request(me, bucket_of(at), BUCKET_EXCLUSIVE)
		fi
	}
	atomic {
		if
		:: !is_raised(at) ->
			have_in_slices(me, bucket_of(at), BUCKET_SHARED);
			request(me, exact_of(at), EXACT_SHARED)
		:: is_raised(at) ->
			have_in_slices(me, bucket_of(at), BUCKET_EXCLUSIVE);
#ifdef UPGRADE
			request(me, exact_of(at), EXACT_SHARED);
			has_lock(me);
#endif
			request(me, exact_of(at), EXACT_EXCLUSIVE)
		fi;
		if
		:: has_lock(me) -> goto next_exact
		:: else
		fi
	}
	atomic {
		if
		:: !is_raised(at) -> have_in_slices(me, exact_of(at), EXACT_SHARED)
		:: is_raised(at) -> have_in_slices(me, exact_of(at), EXACT_EXCLUSIVE)
		fi;
next_exact:
		at = 0;
		r++;
		if
		:: r < RESOURCES -> goto lock_exact
		:: else -> r = 0; goto look
		fi
	}

lock_bucket:
	atomic {
		if
		:: !claims_in(r) -> goto next_bucket
		:: claims_in(r) && !raises_in(r) -> request(me, r, BUCKET_ESCALATED)
		:: claims_in(r) && raises_in(r) -> request(me, r, EXCLUSIVE)
		fi
	}
	atomic {
		if
		:: raises_in(r) -> have_in_slices(me, r, EXCLUSIVE)
		:: else -> have_in_slices(me, r, BUCKET_ESCALATED)
		fi;
next_bucket:
		r++;
		if
		:: r < BUCKETS -> goto lock_bucket
		:: else -> r = 0
		fi
	}

	// It looks again, with a fresh snapshot, and writes what it has to raise.
look:
	atomic {
#ifdef OLD_LOOK
		seen = snapshot[r];
#else
		seen = fence[r];
#endif
		if
		:: !is_claimed(r) || token[r] == seen -> goto looked
		:: is_claimed(r) && is_external(r) && token[r] > seen ->
#ifndef RAISE_UNDER_SHARE
			// The fence was forgotten since, and there is no lock to raise it again.
			if
#ifdef FORGOTTEN_UNNOTICED
			:: !is_raised(r) -> goto looked
#else
			:: !is_raised(r) -> goto refused
#endif
			:: else
			fi
#endif
		:: else -> goto refused
		fi
	}
	atomic {
		if
		:: changer[r] == 0 && fence[r] == seen -> changed_to[r] = token[r]; changer[r] = me + 1
		:: else -> goto refused
		fi;
looked:
		seen = 0;
		r++;
		if
		:: r < RESOURCES -> goto look
		:: else -> r = 0
		fi
	}

	// A transaction that is prepared has let go of its session, but not of its locks; some day it
	// is committed or rolled back. Nothing is checked then.
decide:
	if
	:: atomic {
			true ->
			d_step {
				for (i : 0 .. RESOURCES - 1) {
					assert(!is_claimed(i) || token[i] >= highest[i]) // I5
				}
				commit_changes(false);
				for (i : 0 .. RESOURCES - 1) {
					assert(!is_claimed(i) || !is_external(i) || fence[i] >= token[i]) // I3
				}
				clean_up()
			}
			goto finish
		}
	:: atomic { kind == PREPARED -> goto refused }
	fi;
refused:
	atomic { d_step { forget_changes(); clean_up() } }
finish:
	atomic {
		d_step { release_a_lock() }
		if
		:: busy[me] == 0 -> goto end_of_it
		:: else -> goto finish
		fi
	}
end_of_it: // A process stays, so that the order in which they end makes no states of its own.
	false
}

// ---- acquire, or advance for a resource with tokens from elsewhere

#define is_anybody_busy(r) \
	((busy[0] | busy[1] | busy[2] | busy[3 % PROCESSES] | busy[4 % PROCESSES]) & BIT(r))

inline give_up_a_try(tag)
{
	busy[me] = 0;
	assert(is_anybody_busy(r)); // I6
	give_up(me, tag)
}

inline draw()
{
	if
	:: is_external(r)
	:: else -> last_token++; token = last_token
	fi
}

proctype granter(byte me; byte r; byte tries)
{
	byte token, seen;

again:
	atomic {
		if
		:: tries == 0 -> goto end_of_it
		:: else -> tries--
		fi;
		if
		:: is_external(r) -> select (token : 1 .. TOKENS)
		:: else
		fi;
#ifdef DRAW_BEFORE_LOCK
		draw()
	}
	atomic {
#endif
		busy[me] = BIT(r);
		request(me, bucket_of(r), BUCKET_EXCLUSIVE)
	}
	atomic {
		if
		:: has_lock(me)
		:: !has_lock(me) -> give_up_a_try(bucket_of(r)); goto finish
		fi;
		request(me, exact_of(r), EXACT_EXCLUSIVE)
	}
	// It looks again: it may not be free any more, or there may be nothing to advance.
	atomic {
		if
		:: has_lock(me)
		:: !has_lock(me) -> give_up_a_try(exact_of(r)); goto finish
		fi;
		seen = fence[r];
		if
#ifndef NO_SECOND_LOOK
		:: is_external(r) && token <= seen -> goto finish
#endif
		:: !is_external(r) && changer[r] != 0 -> goto finish
		:: else
		fi
	}
	atomic {
#ifndef DRAW_BEFORE_LOCK
		draw();
#endif
		if
		:: changer[r] == 0 && fence[r] == seen -> changed_to[r] = token; changer[r] = me + 1
		:: else -> goto finish
		fi;
		token = 0;
		seen = 0
	}
#ifdef LOCK_RELEASED_EARLY
	d_step { release_a_lock() }
	d_step { release_a_lock() }
#endif
#ifdef WORKS
	// It may work in the same transaction, whose seal then locks as well.
	if
	:: true
	:: atomic { true -> request(me, bucket_of(r), BUCKET_SHARED) }
		atomic { has_lock(me); request(me, exact_of(r), EXACT_SHARED) }
		has_lock(me)
	fi;
#endif
	if
	:: atomic { true -> d_step { commit_changes(true) } }
	:: atomic { true -> d_step { forget_changes() } }
	fi;
finish:
	atomic {
		d_step { release_a_lock() }
		if
		:: busy[me] == 0 -> token = 0; seen = 0; goto again
		:: else -> goto finish
		fi
	}
end_of_it:
	false
}

// ---- forget

#ifdef FORGETTING
proctype forgetter(byte me; byte r)
{
	atomic {
		busy[me] = BIT(r);
		request(me, bucket_of(r), BUCKET_EXCLUSIVE)
	}
	atomic {
		have_in_slices(me, bucket_of(r), BUCKET_EXCLUSIVE);
		request(me, exact_of(r), EXACT_EXCLUSIVE)
	}
	atomic {
		have_in_slices(me, exact_of(r), EXACT_EXCLUSIVE);
		changed_to[r] = 0;
		changer[r] = me + 1
	}
	d_step {
		commit_changes(false);
		highest[r] = 0 // the installer's exception
	}
finish:
	atomic {
		d_step { release_a_lock() }
		if
		:: busy[me] == 0
		:: else -> goto finish
		fi
	}
end_of_it:
	false
}
#endif

// ---- prune: waits for no lock, and gives its locks back at once; what keeps acquire away until it
// has committed is the row, which is being changed

#ifdef PRUNING
proctype pruner(byte me; byte r)
{
	atomic {
		busy[me] = BIT(r);
		request(me, bucket_of(r), BUCKET_EXCLUSIVE);
		if
		:: !has_lock(me) -> give_up(me, bucket_of(r)); busy[me] = 0; goto end_of_it
		:: else
		fi;
		request(me, exact_of(r), EXACT_EXCLUSIVE);
		if
		:: !has_lock(me) -> give_up(me, exact_of(r)); d_step { release_a_lock() }; goto end_of_it
		:: else
		fi
	}
	atomic {
		if
		:: changer[r] == 0 -> changed_to[r] = 0; changer[r] = me + 1
		:: else
		fi
	}
	d_step { release_a_lock() }
	d_step { release_a_lock() }
	if
	:: atomic { true -> d_step { commit_changes(false) } }
	:: atomic { true -> d_step { forget_changes() } }
	fi;
end_of_it:
	false
}
#endif

init
{
	atomic {
		for (i : 0 .. RESOURCES - 1) {
			fence[i] = FIRST_FENCE;
			highest[i] = fence[i]
		}
		START
	}
}
