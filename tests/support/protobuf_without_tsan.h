// Included first in all that is compiled with ThreadSanitizer and may use protobuf's classes: under __SANITIZE_THREAD__
// protobuf's headers give map fields a member that Debian's libprotobuf, built without it, does not know.
#pragma once

#include <cstddef>  // libstdc++ draws its own conclusion from the macro first

#undef __SANITIZE_THREAD__
