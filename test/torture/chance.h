// SPDX-License-Identifier: PostgreSQL
// chance.h: everything that a worker decides by chance, from its seed.
#pragma once

#include <chrono>
#include <random>
#include <thread>

namespace torture {

class Chance {
public:
	explicit Chance(std::uint64_t seed) : engine_(seed)
	{
	}

	// From low to high, both included.
	int
	between(int low, int high)
	{
		return std::uniform_int_distribution<int>(low, high)(engine_);
	}

	bool
	percent(int percent)
	{
		return between(1, 100) <= percent;
	}

	// One of the list.
	template <typename List>
	const auto &
	one_of(const List &list)
	{
		return list[static_cast<std::size_t>(between(0, static_cast<int>(std::size(list)) - 1))];
	}

	void
	pause(int low_ms, int high_ms)
	{
		std::this_thread::sleep_for(std::chrono::milliseconds(between(low_ms, high_ms)));
	}

private:
	std::mt19937_64 engine_;
};

} // namespace torture
