# Makes C of the live page: cmake -DPAGE=page.html -DOUT=page_data.c -P page.cmake. page.h says what is in it.
cmake_minimum_required(VERSION 3.22)

# base64(OUT HEX): base64 of the bytes that HEX has two digits for.
function(base64 out hex)
    set(letters "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
    string(LENGTH "${hex}" digits)
    math(EXPR missing "(6 - ${digits} % 6) % 6")
    string(REPEAT "0" ${missing} zeros)
    string(REGEX MATCHALL "......" triples "${hex}${zeros}")
    set(text "")
    foreach(triple IN LISTS triples)
        foreach(shift 18 12 6 0)
            math(EXPR place "(0x${triple} >> ${shift}) & 63")
            string(SUBSTRING "${letters}" ${place} 1 letter)
            string(APPEND text ${letter})
        endforeach()
    endforeach()
    math(EXPR padding "${missing} / 2")
    string(LENGTH "${text}" length)
    math(EXPR kept "${length} - ${padding}")
    string(SUBSTRING "${text}" 0 ${kept} text)
    string(REPEAT "=" ${padding} end)
    set(${out} "${text}${end}" PARENT_SCOPE)
endfunction()

# source_of(OUT TAG): what a policy calls the one element of this tag, by the hash of its text.
function(source_of out tag)
    string(FIND "${page}" "<${tag}>" begin)
    string(FIND "${page}" "<${tag}>" last REVERSE)
    string(FIND "${page}" "</${tag}>" end)
    if(begin LESS 0 OR end LESS 0 OR NOT begin EQUAL last)
        message(FATAL_ERROR "${PAGE} has not exactly one <${tag}> … </${tag}>")
    endif()
    string(LENGTH "<${tag}>" length)
    math(EXPR begin "${begin} + ${length}")
    math(EXPR length "${end} - ${begin}")
    string(SUBSTRING "${page}" ${begin} ${length} text)
    string(SHA256 hash "${text}")
    base64(hash "${hash}")
    set(${out} "'sha256-${hash}'" PARENT_SCOPE)
endfunction()

file(READ "${PAGE}" page)
source_of(script script)
source_of(style style)
file(READ "${PAGE}" bytes HEX)
string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
string(REGEX REPLACE "(................................................................................)" "\\1\n"
       bytes "${bytes}")
file(WRITE "${OUT}" "#include \"server/control/page.h\"

const unsigned char page_html[] = {
${bytes}};
const size_t page_bytes = sizeof page_html;
const char page_policy[] =
    \"default-src 'none'; script-src ${script}; style-src ${style}; connect-src 'self'; img-src data:; \"
    \"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \"
    \"require-trusted-types-for 'script'; trusted-types 'none'\";
")
