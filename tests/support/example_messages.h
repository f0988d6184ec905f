// protobuf's classes for tf.train.Example and the messages around it; to be included instead of example.pb.h.
#pragma once

// libstdc++ looks at the macro below first.
#include <memory>
#include <string>

// Under __SANITIZE_THREAD__ protobuf's headers give map fields a member that Debian's libprotobuf, built without it,
// does not know.
#pragma push_macro("__SANITIZE_THREAD__")
#undef __SANITIZE_THREAD__
#include "example.pb.h"
#include "example_entries.pb.h"
#pragma pop_macro("__SANITIZE_THREAD__")
