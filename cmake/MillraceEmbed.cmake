# cmake -DPROGRAM=FILE -DNAME=kName -DSOURCE=FILE.cc -P MillraceEmbed.cmake: writes a source with the bytes of PROGRAM as
# millrace::NAME, a std::string_view.
file(READ ${PROGRAM} bytes HEX)
file(SIZE ${PROGRAM} size)
string(REGEX REPLACE "(..)" "\\\\x\\1" bytes "${bytes}")
file(WRITE ${SOURCE} "#include <string_view>\n\nnamespace millrace {\nextern const std::string_view ${NAME};\n"
                     "const std::string_view ${NAME}(\"${bytes}\", ${size});\n}  // namespace millrace\n")
