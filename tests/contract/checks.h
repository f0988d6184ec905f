#pragma once

#include <functional>
#include <memory>
#include <string>

#include "tests/contract/outcome.h"
#include "tests/support/sanitized.h"

namespace millrace::test {

// Makes a dataset, with something put between its operators or not; else always the same.
using MakeTwin = std::function<TwinDataset(const Weave&)>;

constexpr size_t kMostPlaces = kThreadSanitized ? 5 : kSanitized ? 8 : 24;

struct CheckOptions {
  // Numbers of the moments at which things happen.
  uint64_t seed = 1;
  // Save points and places where pipelines are dropped: all when there are no more, else half as many.
  size_t most_places = kMostPlaces;
  // Elements of endless streams that are looked at.
  size_t limit = 150;
  // Of the local files, for some of the runs, by a seed.
  std::function<std::shared_ptr<Storage>(uint64_t seed)> storage = slow_storage;
};

// What everything that can be built must do: give the elements of its model, with one thread, two and eight, with every
// rewrite and without, with pending and delays between its operators, from a slow storage; again and again; go on from
// any place where it was saved; and leave nothing after when it is dropped. The first thing that is wrong, in words;
// empty: nothing.
[[nodiscard]] std::string broken_promise(const MakeTwin& make, const CheckOptions& options = {});

// Places from 0 to `last`: all of them when they are no more than `most`, else half of `most`, drawn.
[[nodiscard]] std::vector<size_t> some_places(size_t last, size_t most, uint64_t seed);

}  // namespace millrace::test
