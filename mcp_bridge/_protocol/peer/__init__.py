"""JSON-RPC 2.0 connections in both roles."""
