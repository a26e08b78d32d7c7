# Installs BUILD into PREFIX, builds examples/cpp against that tree alone and runs every example.
# cmake -DBUILD=... -DSOURCE=... -DPREFIX=... -DGENERATOR=... -DCXX=... -DC=... -P run.cmake
function(must)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE text ERROR_VARIABLE text)
  if(code)
    message(FATAL_ERROR "${ARGN}\nended with ${code}:\n${text}")
  endif()
  set(answer "${text}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE "${PREFIX}")
must("${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${PREFIX}")
must("${CMAKE_COMMAND}" -S "${SOURCE}" -B "${PREFIX}/examples" -G "${GENERATOR}" -DCMAKE_BUILD_TYPE=Release
  "-DCMAKE_PREFIX_PATH=${PREFIX}" "-DCMAKE_CXX_COMPILER=${CXX}" "-DCMAKE_C_COMPILER=${C}" "-DCMAKE_CXX_FLAGS=${FLAGS}")
must("${CMAKE_COMMAND}" --build "${PREFIX}/examples" -j 2)
file(GLOB sources "${SOURCE}/*.cc")
if(NOT sources)
  message(FATAL_ERROR "no example in ${SOURCE}")
endif()
foreach(source IN LISTS sources)
  get_filename_component(name "${source}" NAME_WE)
  must("${CMAKE_COMMAND}" -E env "GRAPHEX_CACHE_DIR=${PREFIX}/cache" "${PREFIX}/examples/${name}")
  message(STATUS "${name}:\n${answer}")
endforeach()
