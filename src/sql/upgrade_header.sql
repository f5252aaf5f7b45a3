\echo Use "ALTER EXTENSION fencing UPDATE" to load this file. \quit

