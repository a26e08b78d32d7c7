# Install rules and the exported package: find_package(graphex) gives graphex::compile and the rooms below it.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/graphex")
install(TARGETS ${GX_ROOMS} EXPORT graphexTargets ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(EXPORT graphexTargets NAMESPACE graphex:: DESTINATION "${package_dir}")
install(DIRECTORY graphex DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
  FILES_MATCHING PATTERN "*.h" PATTERN "*.def")
configure_package_config_file(cmake/graphexConfig.cmake.in "${CMAKE_BINARY_DIR}/graphexConfig.cmake"
  INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${CMAKE_BINARY_DIR}/graphexConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_BINARY_DIR}/graphexConfig.cmake" "${CMAKE_BINARY_DIR}/graphexConfigVersion.cmake"
  DESTINATION "${package_dir}")
